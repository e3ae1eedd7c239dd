"""The formulas against independent ones in fp64, and their independence of each other."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch.nn import functional
from vllm_fl import envs
from vllm_fl.dispatch.backends.reference import activation, normalization, quantization, rotary
from vllm_fl.dispatch.default import configure
from vllm_fl.dispatch.manager import OpManager
from vllm_fl.dispatch.settings import merge
from vllm_fl.dispatch.types import DispatchUnsupported


def cpu_manager() -> OpManager:
    manager = OpManager()
    configure(manager, merge(envs.read({}), "cpu"))
    return manager


def test_B5_a_missing_formula_takes_no_other_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from vllm_fl.ops import clib

    monkeypatch.delattr(clib, "moe_align_block_size")
    manager = cpu_manager()
    with pytest.raises(RuntimeError, match="No available implementation for op='moe_align_block_size'"):
        manager.resolve("moe_align_block_size")
    others = set(manager.registry.list_operators()) - {
        "moe_align_block_size",
        "invoke_fused_moe_triton_kernel",
    }
    assert {manager.get_selected_impl_id(op) for op in others} == {"reference.torch"}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(3, 8), (2, 3, 10), (0, 4)])
def test_gated_activations(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    x = torch.randn(shape, generator=torch.manual_seed(0)).to(dtype)
    half = shape[-1] // 2
    gate, up = x[..., :half].double(), x[..., half:].double()
    expected = {
        "silu": gate / (1 + torch.exp(-gate)) * up,
        "none": functional.gelu(gate) * up,
        "tanh": functional.gelu(gate, approximate="tanh") * up,
    }
    results = {
        "silu": activation.silu_and_mul(None, x),
        "none": activation.gelu_and_mul(SimpleNamespace(approximate="none"), x),
        "tanh": activation.gelu_and_mul(SimpleNamespace(approximate="tanh"), x),
    }
    for name, result in results.items():
        assert result.dtype == dtype
        # Rounded once, from a result that is right to fp32.
        torch.testing.assert_close(
            result, expected[name].to(dtype), rtol=2**-7 if dtype == torch.bfloat16 else 1e-5, atol=1e-6
        )


def test_norm_with_and_without_residual() -> None:
    torch.manual_seed(0)
    layer = SimpleNamespace(weight=torch.randn(16), variance_epsilon=1e-5)
    x, residual = torch.randn(4, 16), torch.randn(4, 16)
    before = x.clone(), residual.clone()

    def exact(value: torch.Tensor) -> torch.Tensor:
        wide = value.double()
        return (wide / (wide.square().mean(-1, keepdim=True) + 1e-5).sqrt() * layer.weight.double()).float()

    torch.testing.assert_close(normalization.rms_norm(layer, x), exact(x))
    y, total = normalization.rms_norm(layer, x, residual)
    torch.testing.assert_close(y, exact(x + residual))
    assert torch.equal(total, x + residual)
    assert torch.equal(x, before[0])
    assert torch.equal(residual, before[1])
    ones = SimpleNamespace(weight=None, variance_epsilon=1e-5)
    torch.testing.assert_close(
        normalization.rms_norm(ones, x), functional.rms_norm(x, (16,), eps=1e-5), rtol=1e-5, atol=1e-5
    )
    assert normalization.rms_norm(layer, x[:0]).shape == (0, 16)


def test_norm_adds_the_residual_in_fp32() -> None:
    layer = SimpleNamespace(weight=None, variance_epsilon=0.0)
    x = torch.tensor([[256.0, 1.0]], dtype=torch.bfloat16)
    residual = torch.tensor([[1.0, 1.0]], dtype=torch.bfloat16)
    y, _ = normalization.rms_norm(layer, x, residual)
    wide = torch.tensor([[257.0, 2.0]], dtype=torch.float64)
    assert torch.equal(y, (wide / wide.square().mean(-1, keepdim=True).sqrt()).bfloat16())


def rotate_pairs(x: torch.Tensor, angles: torch.Tensor, interleaved: bool) -> torch.Tensor:
    """x [T, H, D] turned as complex numbers by angles [T, R/2], in fp64."""
    width = 2 * angles.shape[-1]
    turned = x[..., :width].double()
    if interleaved:
        pairs = torch.complex(turned[..., 0::2].contiguous(), turned[..., 1::2].contiguous())
    else:
        pairs = torch.complex(turned[..., : width // 2].contiguous(), turned[..., width // 2 :].contiguous())
    pairs = pairs * torch.polar(torch.ones_like(angles), angles)[:, None]
    parts = (pairs.real, pairs.imag)
    joined = torch.stack(parts, -1).flatten(-2) if interleaved else torch.cat(parts, -1)
    return torch.cat((joined, x[..., width:].double()), -1)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize(("head", "rotated"), [(64, 64), (128, 128), (192, 192), (128, 64), (192, 64)])
def test_B50_rotary_for_whole_and_partial_heads(head: int, rotated: int, interleaved: bool) -> None:
    torch.manual_seed(0)
    table = torch.rand(50, rotated // 2, dtype=torch.float64) * 6
    pos = torch.randint(0, 50, (7,))
    q, k = torch.randn(7, 4, head), torch.randn(7, 2, head)
    expected = [rotate_pairs(x, table[pos], interleaved).float() for x in (q, k)]
    cos, sin = table.cos().float(), table.sin().float()
    new_q, new_k = rotary.rotary_embedding(None, q, k, cos, sin, pos, interleaved, inplace=False)
    torch.testing.assert_close(new_q, expected[0])
    torch.testing.assert_close(new_k, expected[1])
    same_q, same_k = rotary.rotary_embedding(None, q, k, cos, sin, pos.int(), interleaved)
    assert same_q is q
    assert same_k is k
    torch.testing.assert_close(q, expected[0])
    if rotated == head:
        twice = [t.repeat_interleave(2, -1) if interleaved else torch.cat((t, t), -1) for t in (cos, sin)]
        again = torch.randn(7, 4, head)
        torch.testing.assert_close(
            rotary.rotary_embedding(None, again, None, *twice, pos, interleaved, inplace=False)[0],
            rotary.rotary_embedding(None, again, None, cos, sin, pos, interleaved, inplace=False)[0],
        )


def test_rotary_without_key_for_batches_and_for_no_tokens() -> None:
    cos, sin = torch.ones(9, 4), torch.zeros(9, 4)
    q = torch.randn(2, 3, 5, 8)
    result, key = rotary.rotary_embedding(
        None, q, None, cos, sin, torch.zeros(2, 3, dtype=torch.int64), inplace=False
    )
    assert key is None
    assert torch.equal(result, q)
    empty = torch.empty(0, 5, 8)
    assert rotary.rotary_embedding(None, empty, empty, cos, sin, torch.empty(0, dtype=torch.int64))[
        0
    ].shape == (0, 5, 8)


def test_rotary_turns_half_precision_in_fp32() -> None:
    torch.manual_seed(0)
    q = torch.randn(5, 2, 64, dtype=torch.bfloat16)
    angles = torch.rand(5, 32, dtype=torch.float64) * 6
    result, _ = rotary.rotary_embedding(
        None, q, None, angles.cos().float(), angles.sin().float(), torch.arange(5), inplace=False
    )
    assert torch.equal(result, rotate_pairs(q, angles, False).bfloat16())


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"q": torch.ones(3, 8)}, "3 or 4 dimensions"),
        ({"k": torch.ones(3, 1, 8, dtype=torch.bfloat16)}, "key is torch.bfloat16"),
        ({"k": torch.ones(3, 1, 6)}, "head size of key"),
        ({"q": torch.ones(3, 2, 7), "k": None}, "head size of query must be even"),
        ({"pos": torch.zeros(2, dtype=torch.int64)}, "equal token counts"),
        ({"pos": torch.zeros(3)}, "positions must be int32 or int64"),
        ({"sin": torch.ones(9, 2)}, "must be equal tables"),
        ({"cos": torch.ones(9, 5), "sin": torch.ones(9, 5)}, "tables of width 5 do not fit heads of size 8"),
    ],
)
def test_rotary_refuses_what_does_not_fit(change: dict[str, torch.Tensor | None], complaint: str) -> None:
    arguments = {
        "q": torch.ones(3, 2, 8),
        "k": torch.ones(3, 1, 8),
        "cos": torch.ones(9, 4),
        "sin": torch.ones(9, 4),
        "pos": torch.zeros(3, dtype=torch.int64),
        **change,
    }
    with pytest.raises(ValueError, match=complaint):
        rotary.rotary_embedding(None, **arguments)


def test_quantization_per_token() -> None:
    x = torch.tensor([[127.0, -63.5, 0.5, 1.5], [0.0, 0.0, 0.0, 0.0], [-2.54, 1.27, 0.0, 0.0]])
    q, scale = quantization.dynamic_per_token_quant_int8(x)
    assert scale.shape == (3, 1)
    assert scale[0].item() == 1.0
    # Halves go to the even neighbour.
    assert q[0].tolist() == [127, -64, 0, 2]
    assert q[1].tolist() == [0, 0, 0, 0]
    assert q[2].tolist() == [-127, 64, 0, 0]
    values = torch.randn(5, 3, 64, generator=torch.manual_seed(0)).bfloat16()
    q, scale = quantization.dynamic_per_token_quant_int8(values)
    assert (q.dtype, scale.dtype, scale.shape) == (torch.int8, torch.float32, (5, 3, 1))
    assert ((q * scale - values.float()).abs() <= scale / 2 * 1.0001).all()


def test_attention_backends_are_classes_and_sparse_attention_is_declined() -> None:
    from vllm.utils.import_utils import resolve_obj_by_qualname
    from vllm.v1.attention.backend import AttentionBackend

    manager = cpu_manager()
    names = [manager.call("attention_backend", use_mla, False) for use_mla in (False, True)]
    assert all(issubclass(resolve_obj_by_qualname(name), AttentionBackend) for name in names)
    assert names[0] != names[1]
    with pytest.raises(RuntimeError, match="All 1 implementation") as caught:
        manager.call("attention_backend", False, True)
    assert isinstance(caught.value.__cause__, DispatchUnsupported)
