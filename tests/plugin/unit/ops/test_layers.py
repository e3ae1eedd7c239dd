"""Layers whose operator the policy chooses. Rung 1: against formulas in fp64 and vLLM's own torch code."""

from __future__ import annotations

import importlib
from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from vllm_fl.dispatch import get_default_manager, reset_default_manager

pytestmark = pytest.mark.usefixtures("vllm_config", "registered")

DTYPES = [torch.float32, torch.bfloat16, torch.float16]


@pytest.fixture(autouse=True)
def _operators() -> Iterator[None]:
    reset_default_manager()
    yield
    reset_default_manager()


def tolerance(dtype: torch.dtype) -> dict[str, float]:
    return {"atol": 1e-6, "rtol": 1e-5} if dtype == torch.float32 else {"atol": 1e-2, "rtol": 1e-2}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(0, 16), (3, 16), (2, 3, 16)])
def test_gated_activations(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    from vllm.model_executor.layers.activation import GeluAndMul, SiluAndMul

    x = torch.randn(shape).to(dtype)
    gate, up = x.double().chunk(2, -1)
    layers = {
        SiluAndMul(): F.silu(gate) * up,
        GeluAndMul(): F.gelu(gate) * up,
        GeluAndMul(approximate="tanh"): F.gelu(gate, approximate="tanh") * up,
    }
    for layer, wanted in layers.items():
        assert type(layer).__name__.endswith("FL")
        out = layer(x)
        assert out.dtype == dtype
        torch.testing.assert_close(out.double(), wanted, **tolerance(dtype))


@pytest.mark.parametrize("neox", [True, False])
@pytest.mark.parametrize(("head", "rotated"), [(64, 64), (128, 128), (128, 64), (192, 192), (192, 64)])
def test_B50_rotary_embedding_of_whole_and_of_partial_heads(head: int, rotated: int, neox: bool) -> None:
    from vllm.model_executor.layers.rotary_embedding import RotaryEmbedding

    layer = RotaryEmbedding(head, rotated, 64, 10000.0, neox, torch.float32)
    assert type(layer).__name__ == "RotaryEmbeddingFL"
    positions = torch.tensor([0, 5, 63, 5])
    both = torch.randn(4, 5 * head)  # as they leave one projection: query and key are strided views
    query, key = both.split([4 * head, head], -1)
    wanted = layer.forward_native(positions, query.clone(), key.clone())
    rotated_query, rotated_key = layer(positions, query, key)
    assert rotated_query is query
    assert rotated_key is key
    torch.testing.assert_close((query, key), wanted, atol=1e-6, rtol=1e-6)


def test_rotary_embedding_without_a_key_and_without_tokens() -> None:
    from vllm.model_executor.layers.rotary_embedding import RotaryEmbedding

    layer = RotaryEmbedding(16, 16, 8, 10000.0, True, torch.float32)
    query = torch.randn(3, 32)
    wanted, _ = layer.forward_native(torch.tensor([1, 2, 7]), query.clone())
    out, key = layer(torch.tensor([1, 2, 7]), query)
    torch.testing.assert_close(out, wanted)
    assert key is None
    empty, _ = layer(torch.zeros(0, dtype=torch.int64), torch.zeros(0, 32), torch.zeros(0, 16))
    assert empty.shape == (0, 32)


@pytest.mark.parametrize(
    ("kind", "scaling"),
    [
        ("LinearScalingRotaryEmbedding", {"rope_type": "linear", "factor": 2.0}),
        (
            "Llama3RotaryEmbedding",
            {
                "rope_type": "llama3",
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 64,
            },
        ),
        (
            "YaRNScalingRotaryEmbedding",
            {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64},
        ),
    ],
)
def test_scaled_rotary_embeddings_rotate_by_their_own_tables(kind: str, scaling: dict[str, object]) -> None:
    from vllm.model_executor.layers.rotary_embedding import get_rope

    layer = get_rope(32, 256, True, {"rope_theta": 10000.0, **scaling}, torch.float32)
    assert type(layer).__name__ == f"{kind}FL"
    positions, query = torch.tensor([0, 100, 255]), torch.randn(3, 64)
    wanted, _ = layer.forward_native(positions, query.clone())
    assert not torch.allclose(wanted[1], query[1])
    torch.testing.assert_close(layer(positions, query)[0], wanted, atol=1e-6, rtol=1e-6)


def test_B22_4096_positions_are_rotated_with_the_accuracy_of_fp32() -> None:
    from vllm.model_executor.layers.rotary_embedding import RotaryEmbedding

    layer = RotaryEmbedding(64, 64, 4096, 10000.0, True, torch.float32)
    positions, query = torch.arange(4096), torch.ones(4096, 64)
    angles = layer.cos_sin_cache.double()
    cos, sin = angles.chunk(2, -1)
    wanted = torch.cat([cos - sin, cos + sin], -1)
    assert (layer(positions, query)[0].double() - wanted).abs().max() < 1e-6
    exact = torch.arange(4096).double()[:, None] / 10000.0 ** (torch.arange(0, 64, 2).double() / 64)
    assert (cos - exact.cos()).abs().max() < 1e-3


def norm(x: torch.Tensor, weight: torch.Tensor | None, variance_size: int | None = None) -> torch.Tensor:
    x = x.double()
    mean = x[..., :variance_size].square().mean(-1, keepdim=True)
    return x / (mean + 1e-6).sqrt() * (1.0 if weight is None else weight.double())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("variance_size", [None, 24])
@pytest.mark.parametrize("shape", [(0, 32), (5, 32), (2, 3, 32)])
def test_B22_norms_through_the_ir_of_vllm(
    dtype: torch.dtype, weighted: bool, variance_size: int | None, shape: tuple[int, ...]
) -> None:
    from vllm import ir
    from vllm_fl.ops import ir_kernels

    wide = torch.randn(*shape[:-1], 64).to(dtype)
    x, residual = wide[..., ::2], torch.randn(shape).to(dtype)
    kept, kept_residual = x.clone(), residual.clone()
    weight = torch.randn(32).to(dtype) if weighted else None
    one, add = ir.ops.rms_norm.impls["fl"], ir.ops.fused_add_rms_norm.impls["fl"]
    assert one.impl_fn is ir_kernels.rms_norm.impl_fn
    out = one.func_impl_fn(x, weight, 1e-6, variance_size)
    assert out.dtype == dtype
    torch.testing.assert_close(out.double(), norm(x, weight, variance_size), **tolerance(dtype))
    out, total = add.func_impl_fn(x, residual, weight, 1e-6, variance_size)
    exact = x.double() + residual.double()
    torch.testing.assert_close(out.double(), norm(exact, weight, variance_size), **tolerance(dtype))
    torch.testing.assert_close(total.double(), exact, **tolerance(dtype))
    assert total.dtype == dtype
    assert torch.equal(x, kept)
    assert torch.equal(residual, kept_residual)


def test_norms_of_4096_large_features_are_accumulated_in_fp32() -> None:
    from vllm import ir
    from vllm_fl.ops import ir_kernels  # noqa: F401 - registers the provider

    x = torch.full((1, 4096), 300.0, dtype=torch.float16)  # its square is beyond fp16
    out = ir.ops.rms_norm.impls["fl"].func_impl_fn(x, None, 1e-6)
    assert torch.equal(out, torch.ones_like(out))


def test_the_policy_chooses_the_operator_of_a_layer() -> None:
    from vllm.model_executor.layers.activation import SiluAndMul
    from vllm_fl.dispatch import OpImpl

    get_default_manager().registry.register_impl(
        OpImpl("silu_and_mul", "vendor.test", "vendor", lambda obj, x: x[..., :1] * 0 + 7, vendor="test")
    )
    layer = SiluAndMul()
    from vllm_fl.dispatch import with_preference

    with with_preference("vendor"):
        assert layer(torch.randn(2, 4)).tolist() == [[7.0], [7.0]]
    assert layer(torch.randn(2, 4)).shape == (2, 2)


@pytest.mark.parametrize(("switched_off", "supported"), [("rms_norm", False), ("silu_and_mul", True)])
def test_a_switched_off_norm_provider_is_not_supported(
    switched_off: str, supported: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vllm import ir
    from vllm_fl.ops import ir_kernels

    operators = (ir.ops.rms_norm, ir.ops.fused_add_rms_norm)

    def register_again() -> list[bool]:
        for operator in operators:
            del operator.impls["fl"]
        importlib.reload(ir_kernels)
        return [operator.impls["fl"].supported for operator in operators]

    with monkeypatch.context() as patch:
        patch.setenv("VLLM_FL_OOT_BLACKLIST", switched_off)
        found = register_again()
    assert register_again() == [True, True]
    assert found == [supported, supported]
