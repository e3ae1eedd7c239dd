"""The operators of NVIDIA GPUs: that vLLM's kernels are called as vLLM declares them.

Their results need a GPU; there, tests compare them with the formulas.
"""

from __future__ import annotations

import inspect
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from vllm import _custom_ops
from vllm_fl import envs
from vllm_fl.dispatch.backends.reference import rotary
from vllm_fl.dispatch.backends.vendor.cuda import ops, register_ops
from vllm_fl.dispatch.default import configure
from vllm_fl.dispatch.manager import OpManager
from vllm_fl.dispatch.settings import merge
from vllm_fl.ops import clib

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")


@pytest.fixture(autouse=True)
def _extension(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(register_ops, "has_extension", lambda: True)


def cuda_manager() -> OpManager:
    manager = OpManager()
    configure(manager, merge(envs.read({"VLLM_FL_PREFER": "vendor"}), "nvidia"))
    return manager


def test_without_vllms_extension_no_kernel_of_it_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(register_ops, "has_extension", lambda: False)
    assert cuda_manager().get_selected_impl_id("silu_and_mul") != "vendor.cuda"


def test_every_operator_has_a_kernel_of_vllm() -> None:
    manager = cuda_manager()
    chosen = {op: manager.get_selected_impl_id(op) for op in manager.registry.list_operators()}
    assert {op for op, impl_id in chosen.items() if impl_id != "vendor.cuda"} == {"attention_backend"}


@pytest.mark.parametrize("name", ["topk_softmax", "grouped_topk", "moe_align_block_size", "moe_sum"])
def test_vllms_functions_take_the_arguments_of_the_operator(name: str) -> None:
    expected = list(inspect.signature(getattr(clib, name)).parameters)
    given = list(inspect.signature(getattr(ops, name)).parameters)
    assert len(given) == len(expected)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("inplace", [False, True])
def test_rotary_passes_a_table_of_both_halves(
    interleaved: bool, inplace: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kernel(
        positions: Any, query: Any, key: Any, head_size: int, cos_sin_cache: Any, is_neox: bool
    ) -> None:
        cos, sin = cos_sin_cache.chunk(2, -1)
        for x in (query, key):
            if x is not None:
                heads = x.view(positions.numel(), -1, head_size)
                rotary.rotary_embedding(None, heads, None, cos, sin, positions, not is_neox)

    monkeypatch.setattr(_custom_ops, "rotary_embedding", kernel)
    torch.manual_seed(0)
    cos, sin, pos = torch.rand(9, 4), torch.rand(9, 4), torch.arange(5)
    for k in (torch.randn(5, 1, 16), None):
        q = torch.randn(5, 2, 16)
        expected = rotary.rotary_embedding(None, q, k, cos, sin, pos, interleaved, inplace=False)
        result = ops.rotary_embedding(None, q, k, cos, sin, pos, interleaved, inplace)
        assert (result[0] is q) is inplace
        torch.testing.assert_close(result, expected)


def test_tables_of_whole_heads_are_declined_before_anything_changes() -> None:
    q = torch.ones(3, 2, 8)
    cos, sin = torch.zeros(9, 8), torch.ones(9, 8)
    manager = cuda_manager()
    manager.call("rotary_embedding", None, q, None, cos, sin, torch.zeros(3, dtype=torch.int64))
    assert manager.get_selected_impl_id("rotary_embedding") == "vendor.cuda"
    assert q[0, 0].tolist() == [-1, -1, -1, -1, 1, 1, 1, 1]


@needs_gpu
@pytest.mark.parametrize("op", ["silu_and_mul", "gelu_and_mul", "rms_norm", "dynamic_per_token_quant_int8"])
def test_kernels_agree_with_the_formulas(op: str) -> None:
    torch.manual_seed(0)
    x = torch.randn(33, 256, device="cuda").bfloat16()
    layer = SimpleNamespace(
        weight=torch.randn(256, device="cuda").bfloat16(), variance_epsilon=1e-6, approximate="none"
    )
    arguments = (x,) if op.startswith("dynamic") else (layer, x)
    formulas = OpManager(cuda_manager().registry, merge(envs.read({}), "cpu").policy)
    result, expected = cuda_manager().call(op, *arguments), formulas.call(op, *arguments)
    if op.startswith("dynamic"):
        torch.testing.assert_close(result[1], expected[1])
        assert (result[0].int() - expected[0].int()).abs().max() <= 1
    else:
        torch.testing.assert_close(result, expected, rtol=2e-2, atol=2e-2)
