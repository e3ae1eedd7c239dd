"""The operators of Ascend, against a stand-in for torch_npu that has its documented limits.

This proves plumbing, shapes and formulas. Whether the device computes so is not shown here.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
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

IMPLEMENTATIONS = ("activation", "normalization", "quantization", "rotary", "routing", "selection")


class TorchNpu(ModuleType):
    """Functions of torch_npu 2.10 by their documentation."""

    def __init__(self) -> None:
        super().__init__("torch_npu")
        self.calls: list[str] = []

    def _called(self, name: str, *tensors: torch.Tensor) -> None:
        for tensor in tensors:
            if not tensor.is_contiguous() or tensor.numel() == 0:
                raise RuntimeError(f"EZ1001: {name} takes contiguous tensors that are not empty")
        self.calls.append(name)

    def npu_swiglu(self, input: torch.Tensor, dim: int = -1) -> torch.Tensor:
        self._called("npu_swiglu", input)
        gate, up = input.float().chunk(2, dim)
        return (functional.silu(gate) * up).to(input.dtype)

    def npu_gelu_mul(self, input: torch.Tensor, *, approximate: str = "none") -> torch.Tensor:
        self._called("npu_gelu_mul", input)
        gate, up = input.float().chunk(2, -1)
        return (functional.gelu(gate, approximate=approximate) * up).to(input.dtype)

    def npu_rms_norm(self, input: torch.Tensor, gamma: torch.Tensor, epsilon: float = 1e-6) -> Any:
        self._called("npu_rms_norm")
        wide = input.float()
        scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + epsilon)
        return (wide * scale * gamma.float()).to(input.dtype), scale

    def npu_add_rms_norm(
        self, x1: torch.Tensor, x2: torch.Tensor, gamma: torch.Tensor, epsilon: float = 1e-6
    ) -> Any:
        if gamma.dtype != x1.dtype:
            raise RuntimeError("EZ1001: gamma and x1 must have one dtype")
        total = x1 + x2
        y, scale = self.npu_rms_norm(total, gamma, epsilon)
        return y, scale, total

    def npu_rotary_mul(
        self, input: torch.Tensor, r1: torch.Tensor, r2: torch.Tensor, rotary_mode: str = "half"
    ) -> Any:
        self._called("npu_rotary_mul", input)
        if input.shape[-1] != 128:
            raise RuntimeError("EZ1001: head size must be 128")
        if rotary_mode == "half":
            first, second = input.chunk(2, -1)
            turned = torch.cat((-second, first), -1)
        else:
            turned = torch.stack((-input[..., 1::2], input[..., 0::2]), -1).flatten(-2)
        return input * r1 + turned * r2

    def npu_moe_gating_top_k_softmax(self, x: torch.Tensor, finished: Any = None, k: int = 1) -> Any:
        self._called("npu_moe_gating_top_k_softmax", x)
        weights, ids = x.float().softmax(-1).topk(k)
        rows = torch.arange(x.shape[0] * k, dtype=torch.int32).view(k, -1).t()
        return weights.to(x.dtype), ids.int(), rows

    def npu_dynamic_quant(self, input: torch.Tensor) -> Any:
        if input.dtype not in (torch.float16, torch.bfloat16) or input.dim() < 2:
            raise RuntimeError("EZ1001: input must be fp16 or bf16 and have two dimensions")
        self._called("npu_dynamic_quant")
        scale = input.float().abs().amax(-1) / 127
        return torch.round(input.float() / scale[..., None]).to(torch.int8), scale


@pytest.fixture
def npu(monkeypatch: pytest.MonkeyPatch) -> Iterator[TorchNpu]:
    made = TorchNpu()
    monkeypatch.setitem(sys.modules, "torch_npu", made)
    names = [f"vllm_fl.dispatch.backends.vendor.ascend.impl.{name}" for name in IMPLEMENTATIONS]
    for name in names:
        sys.modules.pop(name, None)
        importlib.import_module(name)
    yield made
    for name in names:
        sys.modules.pop(name, None)


@pytest.fixture
def manager(npu: TorchNpu) -> OpManager:
    made = OpManager()
    configure(made, merge(envs.read({"USE_FLAGGEMS": "0"}), "ascend"))
    return made


@pytest.fixture
def formulas() -> OpManager:
    made = OpManager()
    configure(made, merge(envs.read({}), "cpu"))
    return made


LAYER = SimpleNamespace(
    weight=torch.linspace(0.5, 2, 16).bfloat16(), variance_epsilon=1e-6, approximate="tanh"
)


def test_vendor_operators_come_first_and_formulas_fill_the_rest(manager: OpManager) -> None:
    chosen = {
        op: manager.get_selected_impl_id(op) for op in manager.registry.list_operators() if "triton" not in op
    }
    formula = {"grouped_topk", "moe_align_block_size", "moe_sum"}
    assert {op for op, impl_id in chosen.items() if impl_id == "reference.torch"} == formula
    assert {impl_id for op, impl_id in chosen.items() if op not in formula} == {"vendor.ascend"}


def test_without_torch_npu_formulas_take_over_and_say_so(
    monkeypatch: pytest.MonkeyPatch, caplog_vllm: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "torch_npu", None)
    for name in IMPLEMENTATIONS:
        monkeypatch.delitem(
            sys.modules, f"vllm_fl.dispatch.backends.vendor.ascend.impl.{name}", raising=False
        )
    made = OpManager()
    configure(made, merge(envs.read({"USE_FLAGGEMS": "0"}), "ascend"))
    assert made.get_selected_impl_id("silu_and_mul") == "reference.torch"
    assert "vendor.ascend of 'silu_and_mul' is left out" in caplog_vllm.text


@pytest.mark.parametrize("op", ["silu_and_mul", "gelu_and_mul", "rms_norm"])
def test_activations_and_norms(op: str, manager: OpManager, formulas: OpManager, npu: TorchNpu) -> None:
    torch.manual_seed(0)
    x = torch.randn(16, 5).bfloat16().t()
    torch.testing.assert_close(manager.call(op, LAYER, x), formulas.call(op, LAYER, x), rtol=1e-2, atol=1e-2)
    assert len(npu.calls) == 1
    assert manager.call(op, LAYER, x[:0]).shape[0] == 0
    assert len(npu.calls) == 1


def test_norm_of_a_sum_returns_the_sum(manager: OpManager, formulas: OpManager, npu: TorchNpu) -> None:
    x, residual = torch.randn(3, 16).bfloat16(), torch.randn(3, 16).bfloat16()
    before = x.clone()
    y, total = manager.call("rms_norm", LAYER, x, residual)
    expected_y, expected_total = formulas.call("rms_norm", LAYER, x, residual)
    torch.testing.assert_close(y, expected_y, rtol=2e-2, atol=2e-2)
    torch.testing.assert_close(total, expected_total)
    assert torch.equal(x, before)
    assert npu.calls == ["npu_rms_norm"]
    wide = SimpleNamespace(weight=LAYER.weight.float(), variance_epsilon=1e-6)
    manager.call("rms_norm", wide, x, residual)
    assert len(npu.calls) == 1


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("inplace", [False, True])
def test_rotary_of_whole_heads_of_128(
    interleaved: bool, inplace: bool, manager: OpManager, npu: TorchNpu
) -> None:
    torch.manual_seed(0)
    angles = torch.rand(20, 64) * 6
    cos, sin, pos = angles.cos(), angles.sin(), torch.randint(0, 20, (5,))
    q, k = torch.randn(5, 4, 128).bfloat16(), torch.randn(5, 2, 128).bfloat16()
    expected = rotary.rotary_embedding(None, q, k, cos, sin, pos, interleaved, inplace=False)
    result = manager.call("rotary_embedding", None, q, k, cos, sin, pos, interleaved, inplace)
    torch.testing.assert_close(result, expected, rtol=3e-2, atol=3e-2)
    assert (result[0] is q, result[1] is k) == (inplace, inplace)
    assert npu.calls == ["npu_rotary_mul"] * 2


@pytest.mark.parametrize(
    "change",
    [
        {"q": torch.ones(5, 2, 64), "k": None},
        {"q": torch.ones(5, 2, 192, dtype=torch.bfloat16), "k": None},
        {"q": torch.ones(5, 2, 256, dtype=torch.bfloat16), "k": torch.ones(5, 1, 256, dtype=torch.bfloat16)},
        {"pos": torch.zeros(5, dtype=torch.int32)},
        {"q": torch.ones(1, 5, 2, 128, dtype=torch.bfloat16), "k": None},
        {
            "q": torch.ones(0, 2, 128, dtype=torch.bfloat16),
            "k": None,
            "pos": torch.zeros(0, dtype=torch.int64),
        },
        {"q": torch.ones(5, 2, 128)},
    ],
)
def test_B50_any_other_rotary_is_left_to_the_formula(
    change: dict[str, Any], manager: OpManager, npu: TorchNpu
) -> None:
    arguments = {
        "q": torch.ones(5, 2, 128, dtype=torch.bfloat16),
        "k": None,
        "pos": torch.zeros(5, dtype=torch.int64),
        **change,
    }
    cos, sin = torch.zeros(9, 32), torch.ones(9, 32)
    if arguments["q"].shape[-1] == 128:
        cos, sin = torch.zeros(9, 64), torch.ones(9, 64)
    q = arguments["q"].clone()
    manager.call("rotary_embedding", None, q, arguments["k"], cos, sin, arguments["pos"])
    assert npu.calls == []
    expected, _ = rotary.rotary_embedding(
        None, arguments["q"], arguments["k"], cos, sin, arguments["pos"], inplace=False
    )
    assert torch.equal(q, expected)


@pytest.mark.parametrize("renormalize", [False, True])
def test_choice_of_experts(renormalize: bool, manager: OpManager, formulas: OpManager, npu: TorchNpu) -> None:
    logits = torch.randn(6, 8, generator=torch.manual_seed(0))
    results = []
    for chosen in (manager, formulas):
        buffers = (
            torch.empty(6, 2),
            torch.empty(6, 2, dtype=torch.int32),
            torch.empty(6, 2, dtype=torch.int32),
        )
        chosen.call("topk_softmax", *buffers, logits, renormalize, None, None)
        results.append(buffers)
    for ours, expected in zip(*results, strict=True):
        torch.testing.assert_close(ours, expected)
    assert npu.calls == ["npu_moe_gating_top_k_softmax"]


def test_quantization_takes_halves_and_leaves_fp32_to_the_formula(manager: OpManager, npu: TorchNpu) -> None:
    x = torch.randn(4, 8, generator=torch.manual_seed(0))
    for dtype, calls in ((torch.bfloat16, 1), (torch.float32, 1), (torch.float16, 2)):
        q, scale = manager.call("dynamic_per_token_quant_int8", x.to(dtype))
        assert scale.shape == (4, 1)
        assert len(npu.calls) == calls
        assert ((q * scale - x.to(dtype).float()).abs() <= scale / 2 * 1.001).all()
    assert manager.get_failed_impls() == {}


def test_attention_without_a_backend_is_declined(manager: OpManager) -> None:
    assert manager.call("attention_backend", False, False).endswith("AscendAttentionBackend")
