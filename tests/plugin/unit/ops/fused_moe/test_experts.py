"""Unquantized experts. Rung 1: against a loop over tokens and slots in fp64."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from vllm.model_executor.layers.fused_moe.activation import MoEActivation
from vllm_fl.ops.fused_moe import experts as module
from vllm_fl.ops.fused_moe.experts import activate, grouped_linear, run_experts

ACT = {
    MoEActivation.SILU: F.silu,
    MoEActivation.GELU: F.gelu,
    MoEActivation.GELU_TANH: lambda x: F.gelu(x, approximate="tanh"),
}


def double_loop(
    hidden: torch.Tensor,
    w13: torch.Tensor,
    w2: torch.Tensor,
    weights: torch.Tensor | None,
    ids: torch.Tensor,
    activation: MoEActivation = MoEActivation.SILU,
    *,
    expert_map: torch.Tensor | None = None,
    w13_bias: torch.Tensor | None = None,
    w2_bias: torch.Tensor | None = None,
    limit: float | None = None,
) -> torch.Tensor:
    out = torch.zeros(hidden.shape[0], w2.shape[1], dtype=torch.float64)
    for token in range(ids.shape[0]):
        for slot in range(ids.shape[1]):
            expert = int(ids[token, slot])
            if not 0 <= expert < (w13.shape[0] if expert_map is None else len(expert_map)):
                continue
            local = expert if expert_map is None else int(expert_map[expert])
            if not 0 <= local < w13.shape[0]:
                continue
            inner = w13[local].double() @ hidden[token].double()
            if w13_bias is not None:
                inner += w13_bias[local].double()
            gate, up = inner.chunk(2)
            if limit is not None:
                gate, up = gate.clamp(max=limit), up.clamp(-limit, limit)
            outer = w2[local].double() @ (ACT[activation](gate) * up)
            if w2_bias is not None:
                outer += w2_bias[local].double()
            out[token] += outer * (1.0 if weights is None else weights[token, slot].double())
    return out


def case(
    tokens: int,
    experts: int,
    top_k: int,
    *,
    dtype: torch.dtype = torch.float32,
    size: int = 16,
    seed: int = 0,
) -> dict[str, Any]:
    random = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> torch.Tensor:
        return (torch.randn(*shape, generator=random) * 0.3).to(dtype)

    return {
        "hidden": draw(tokens, size),
        "w13": draw(experts, 2 * size, size),
        "w2": draw(experts, size, size),
        "weights": torch.rand(tokens, top_k, generator=random),
        "ids": torch.randint(-2, experts + 2, (tokens, top_k), generator=random),
    }


def both(made: dict[str, Any], activation: MoEActivation = MoEActivation.SILU, **options: Any) -> None:
    values = list(made.values())
    dtype = values[0].dtype
    out = run_experts(*values, activation, **options)
    assert out.dtype == dtype
    tolerance = {"atol": 6e-3, "rtol": 3e-2} if dtype != torch.float32 else {"atol": 1e-5, "rtol": 1e-4}
    torch.testing.assert_close(out.double(), double_loop(*values, activation, **options), **tolerance)


@pytest.mark.parametrize("tokens", [0, 1, 6, 32, 257])
@pytest.mark.parametrize(("experts", "top_k"), [(1, 1), (2, 2), (4, 4), (129, 8)])
def test_any_number_of_tokens_and_experts_equals_a_double_loop(tokens: int, experts: int, top_k: int) -> None:
    both(case(tokens, experts, top_k if tokens < 257 else 1, seed=tokens + experts))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("activation", ACT)
def test_half_precision_and_activations(dtype: torch.dtype, activation: MoEActivation) -> None:
    both(case(24, 4, 2, dtype=dtype), activation)


@pytest.mark.parametrize("size", [5, 6, 7, 16])
def test_sizes_torch_has_no_grouped_product_for(size: int) -> None:
    both(case(11, 3, 2, size=size))


def test_biases_maps_limits_and_strided_inputs() -> None:
    made = case(19, 4, 3, seed=3)
    random = torch.Generator().manual_seed(4)
    options: dict[str, Any] = {
        "w13_bias": torch.randn(4, 32, generator=random),
        "w2_bias": torch.randn(4, 16, generator=random),
        "expert_map": torch.tensor([2, -1, 0, 1, -1, 3, -1, 7], dtype=torch.int32),
        "limit": 0.2,
    }
    made["ids"] = torch.randint(-1, 9, (19, 3), generator=random).to(torch.int32)
    wide = torch.zeros(19, 32)
    wide[:, ::2] = made["hidden"]
    made["hidden"] = wide[:, ::2]
    both(made, **options)


def test_duplicate_routes_of_a_token_add_up() -> None:
    made = case(3, 2, 4)
    made["ids"] = torch.tensor([[1, 1, 1, 0]] * 3)
    both(made)


@pytest.mark.parametrize("size", [16, 7])
def test_B61_a_negative_slot_contributes_zero_even_where_memory_holds_nan(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = case(1, 2, 2, size=size)
    made["ids"] = torch.tensor([[-1, 2]])
    real = grouped_linear

    def poisoned(rows: torch.Tensor, weights: torch.Tensor, counts: torch.Tensor, bias: Any) -> torch.Tensor:
        product = real(rows, weights, counts, bias)
        product[int(counts.sum()) :] = float("nan")
        return product

    monkeypatch.setattr(module, "grouped_linear", poisoned)
    both(made, expert_map=torch.tensor([-1, 0, 1, -1]))


def test_B63_padded_rows_are_zero_and_change_no_other_row() -> None:
    made = case(8, 4, 2, seed=5)
    made["ids"] = torch.randint(0, 4, (8, 2), generator=torch.Generator().manual_seed(6))
    plain = run_experts(*made.values(), MoEActivation.SILU)
    made["ids"][5:] = -1
    made["hidden"][5:] = float("nan")
    padded = run_experts(*made.values(), MoEActivation.SILU)
    # An expert with fewer rows may add up in another order.
    torch.testing.assert_close(padded[:5], plain[:5], atol=1e-6, rtol=1e-5)
    assert torch.equal(padded[5:], torch.zeros(3, 16))


def test_B56_a_rank_all_of_whose_tokens_go_elsewhere_gives_zeros() -> None:
    made = case(9, 64, 8)
    made["ids"] = torch.randint(64, 128, (9, 8), generator=torch.Generator().manual_seed(7))
    expert_map = torch.cat([torch.arange(64), torch.full((64,), -1)]).to(torch.int32)
    out = run_experts(*made.values(), MoEActivation.SILU, expert_map=expert_map)
    assert torch.equal(out, torch.zeros(9, 16))
    assert out[:0].shape == run_experts(*case(0, 64, 8).values(), MoEActivation.SILU).shape


def test_B56_two_ranks_together_equal_one() -> None:
    made = case(12, 128, 4, seed=8)
    made["ids"] = torch.randint(0, 128, (12, 4), generator=torch.Generator().manual_seed(9))
    whole = run_experts(*made.values(), MoEActivation.SILU)
    parts = []
    for first in (0, 64):
        expert_map = torch.full((128,), -1, dtype=torch.int32)
        expert_map[first : first + 64] = torch.arange(64, dtype=torch.int32)
        mine = {**made, "w13": made["w13"][first : first + 64], "w2": made["w2"][first : first + 64]}
        parts.append(run_experts(*mine.values(), MoEActivation.SILU, expert_map=expert_map))
    torch.testing.assert_close(parts[0] + parts[1], whole, atol=1e-6, rtol=1e-5)


def test_B92_the_limit_cuts_the_gate_above_and_the_up_half_on_both_sides() -> None:
    hidden = torch.tensor([[10.0, -10.0, 1.0, 10.0, -10.0, 2.0]])
    cut = activate(hidden, MoEActivation.SILU, 7.0)
    wanted = F.silu(torch.tensor([7.0, -10.0, 1.0])) * torch.tensor([7.0, -7.0, 2.0])
    torch.testing.assert_close(cut[0], wanted)


def test_activations_without_an_up_half() -> None:
    hidden = torch.randn(3, 4, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(activate(hidden, MoEActivation.SILU_NO_MUL), F.silu(hidden))
    torch.testing.assert_close(activate(hidden, MoEActivation.GELU_NO_MUL), F.gelu(hidden))


def test_what_does_not_fit_is_refused() -> None:
    made = case(4, 2, 2)

    def run(activation: MoEActivation = MoEActivation.SILU, limit: float | None = None, **wrong: Any) -> None:
        run_experts(*{**made, **wrong}.values(), activation, limit=limit)

    with pytest.raises(ValueError, match="'swigluoai' is not supported"):
        run(MoEActivation.SWIGLUOAI)
    with pytest.raises(ValueError, match="SwiGLU limit is not supported with expert activation 'gelu'"):
        run(MoEActivation.GELU, 7.0)
    with pytest.raises(ValueError, match="Experts do not fit"):
        run(w2=made["w2"][:, :, :-1])
    with pytest.raises(ValueError, match="do not fit 4 tokens"):
        run(ids=made["ids"][:3])
    with pytest.raises(ValueError, match="Route weights"):
        run(weights=made["weights"][:, :1])
    with pytest.raises(TypeError, match=r"torch\.bfloat16"):
        run(hidden=made["hidden"].bfloat16())
    with pytest.raises(TypeError, match="must be integers"):
        run(ids=made["ids"].float())


def test_B85_a_weight_on_the_input_is_applied_there_and_not_again() -> None:
    made = case(6, 3, 1, seed=11)
    scaled = {**made, "hidden": made["hidden"] * made["weights"], "weights": None}
    both(scaled)
    assert not torch.allclose(
        run_experts(*scaled.values(), MoEActivation.SILU), run_experts(*made.values(), MoEActivation.SILU)
    )
