"""The operators on FlagGems, against a stand-in with the signatures of release 5.0.2."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch.nn import functional
from vllm_fl import envs
from vllm_fl.dispatch.backends.reference import rotary
from vllm_fl.dispatch.default import configure
from vllm_fl.dispatch.manager import OpManager
from vllm_fl.dispatch.settings import merge


def fused_add_rms_norm(x: Any, residual: Any, normalized_shape: Any, weight: Any, eps: float = 1e-5) -> Any:
    residual.copy_(x + residual)
    x.copy_(functional.rms_norm(residual, normalized_shape, weight, eps))
    return x, residual


def apply_rotary_pos_emb(
    q: Any,
    k: Any,
    cos: Any,
    sin: Any,
    position_ids: Any = None,
    rotary_interleaved: Any = False,
    inplace: Any = False,
) -> Any:
    return rotary.rotary_embedding(None, q, k, cos, sin, position_ids, rotary_interleaved, inplace)


def topk_softmax(weights: Any, ids: Any, rows: Any, logits: Any, renormalize: bool = False) -> None:
    values, indices = logits.softmax(-1).topk(ids.shape[-1])
    weights.copy_(values / values.sum(-1, keepdim=True) if renormalize else values)
    ids.copy_(indices)


def grouped_topk(scores: Any, n_group: Any, topk_group: Any, topk: Any, *rest: Any) -> Any:
    return ("grouped", n_group, topk_group, topk, *rest[:2])


class FlagGems(ModuleType):
    def __init__(self) -> None:
        super().__init__("flag_gems")
        self.__spec__ = ModuleSpec("flag_gems", None)
        self.silu_and_mul = lambda a, b: functional.silu(a) * b
        self.gelu_and_mul = lambda a, b, approximate="none": functional.gelu(a, approximate=approximate) * b
        self.rms_norm = lambda x, shape, weight, eps=1e-5: functional.rms_norm(x, shape, weight, eps)
        self.fused_add_rms_norm = fused_add_rms_norm
        self.apply_rotary_pos_emb = apply_rotary_pos_emb
        self.topk_softmax = topk_softmax
        self.grouped_topk = grouped_topk
        self.moe_sum = lambda input, output: output.copy_(input.sum(1))


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Iterator[FlagGems]:
    made = FlagGems()
    monkeypatch.setitem(sys.modules, "flag_gems", made)
    name = "vllm_fl.dispatch.backends.flaggems.ops"
    sys.modules.pop(name, None)
    importlib.import_module(name)
    yield made
    sys.modules.pop(name, None)


@pytest.fixture
def manager(library: FlagGems) -> OpManager:
    made = OpManager()
    # Beside FlagGems only the formulas: this device family has no vendor here.
    configure(made, merge(envs.read({}), None))
    return made


def test_formulas(manager: OpManager) -> None:
    torch.manual_seed(0)
    x, residual = torch.randn(3, 8), torch.randn(3, 8)
    layer = SimpleNamespace(weight=torch.randn(8), variance_epsilon=1e-6, approximate="tanh")
    with_formula = OpManager(manager.registry, merge(envs.read({"VLLM_FL_PREFER": "reference"}), None).policy)
    for op in ("silu_and_mul", "gelu_and_mul", "rms_norm"):
        assert manager.get_selected_impl_id(op) == "default.flagos"
        torch.testing.assert_close(manager.call(op, layer, x), with_formula.call(op, layer, x))
    expected = with_formula.call("rms_norm", layer, x, residual)
    torch.testing.assert_close(manager.call("rms_norm", layer, x.clone(), residual.clone()), expected)


def test_what_flaggems_lacks_is_done_by_the_formula(
    manager: OpManager, caplog_vllm: pytest.LogCaptureFixture
) -> None:
    logits = torch.randn(4, 6)
    buffers = torch.empty(4, 2), torch.empty(4, 2, dtype=torch.int32), torch.empty(4, 2, dtype=torch.int32)
    manager.call("topk_softmax", *buffers, logits, True, None, None)
    assert "falls back" not in caplog_vllm.text
    for _ in range(2):
        manager.call("topk_softmax", *buffers, logits, True, None, torch.tensor([True, False, False, False]))
        assert buffers[1][0].tolist() == [-1, -1]
    assert caplog_vllm.text.count("op='topk_softmax' falls back from default.flagos") == 1
    assert manager.get_selected_impl_id("topk_softmax") == "default.flagos"


def test_key_less_and_partial_rotation_is_declined_before_anything_changes(
    manager: OpManager, caplog_vllm: pytest.LogCaptureFixture
) -> None:
    cos, sin, pos = torch.rand(9, 4), torch.rand(9, 4), torch.arange(3)
    for q, k in ((torch.randn(3, 2, 8), None), (torch.randn(3, 2, 16), torch.randn(3, 2, 16))):
        expected, _ = rotary.rotary_embedding(None, q, k, cos, sin, pos, inplace=False)
        manager.call("rotary_embedding", None, q, k, cos, sin, pos)
        torch.testing.assert_close(q, expected)
    assert "op='rotary_embedding' falls back from default.flagos" in caplog_vllm.text


@pytest.mark.parametrize("inplace", [True, False])
def test_rotation_works_with_the_older_form_of_six_arguments(
    inplace: bool, manager: OpManager, library: FlagGems
) -> None:
    def older(
        q: Any, k: Any, cos: Any, sin: Any, position_ids: Any = None, rotary_interleaved: Any = False
    ) -> Any:
        return rotary.rotary_embedding(None, q, k, cos, sin, position_ids, rotary_interleaved, False)

    cos, sin, pos = torch.rand(9, 4), torch.rand(9, 4), torch.arange(3)
    results = []
    for function in (apply_rotary_pos_emb, older):
        library.apply_rotary_pos_emb = function
        q, k = torch.ones(3, 2, 8), torch.ones(3, 1, 8)
        result = manager.call("rotary_embedding", None, q, k, cos, sin, pos, False, inplace)
        assert (result[0] is q, result[1] is k) == (inplace, inplace)
        results.append(result)
    torch.testing.assert_close(results[0], results[1])
    assert manager.get_failed_impls() == {}


def test_group_limits(manager: OpManager) -> None:
    arguments = (4, 2, 2, True, 1.0, torch.zeros(8), 1)
    assert manager.call("grouped_topk", torch.randn(3, 8), *arguments) == ("grouped", 4, 2, 2, True, 1.0)
    weights, ids = manager.call("grouped_topk", torch.randn(3, 128), 64, 2, 2, True, 1.0, torch.zeros(128), 1)
    assert weights.shape == ids.shape == (3, 2)


def test_sums_that_must_skip_slots_are_left_to_the_formula(manager: OpManager) -> None:
    terms = torch.ones(2, 2, 3)
    terms[0, 1] = torch.nan
    output = torch.empty(2, 3)
    manager.call("moe_sum", terms, output, torch.tensor([[0, -1], [0, 1]]), torch.tensor([0, 1]))
    assert output.tolist() == [[1, 1, 1], [2, 2, 2]]


def test_B31_with_flaggems_off_its_operators_are_not_available(library: FlagGems) -> None:
    for variables in ({"USE_FLAGGEMS": "0"}, {"VLLM_FL_PREFER_ENABLED": "0"}):
        manager = OpManager()
        configure(manager, merge(envs.read(variables), None))
        assert manager.get_selected_impl_id("rms_norm") == "reference.torch"


def test_lists_of_functions_keep_operators_from_running_on_them(library: FlagGems) -> None:
    manager = OpManager()
    configure(manager, merge(envs.read({"VLLM_FL_FLAGOS_BLACKLIST": "fused_add_rms_norm"}), None))
    assert manager.get_selected_impl_id("rms_norm") == "reference.torch"
    assert manager.get_selected_impl_id("silu_and_mul") == "default.flagos"
