"""The operators vLLM's empty build lacks. Rung 2: called through vLLM's own functions and routers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from vllm_fl.ops import clib
from vllm_fl.ops.fused_moe import router

pytestmark = pytest.mark.usefixtures("registered")


def buffers(tokens: int, top_k: int, dtype: torch.dtype = torch.int32) -> tuple[torch.Tensor, ...]:
    return (
        torch.full((tokens, top_k), float("nan")),
        torch.full((tokens, top_k), 99, dtype=dtype),
        torch.full((tokens, top_k), 99, dtype=torch.int32),
    )


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_the_routing_functions_of_vllm_fill_their_outputs(dtype: torch.dtype) -> None:
    from vllm import _custom_ops as ops

    logits = torch.randn(5, 16, generator=torch.Generator().manual_seed(1))
    bias = torch.randn(16, generator=torch.Generator().manual_seed(2))
    padding = torch.tensor([False, False, True, False, False])
    table = torch.randint(0, 16, (50, 3), generator=torch.Generator().manual_seed(3))
    tokens = torch.tensor([4, 49, 0, 7, 9])
    calls: dict[str, tuple[Any, Any]] = {
        "softmax": (
            lambda *out: ops.topk_softmax(*out, logits, True, bias, padding),
            router.choose(router.softmax_scores(logits), 3, bias=bias, renormalize=True, is_padding=padding),
        ),
        "sigmoid": (
            lambda *out: ops.topk_sigmoid(*out, logits, False, bias, 2.5, padding),
            router.choose(router.sigmoid_scores(logits), 3, bias=bias, scaling=2.5, is_padding=padding),
        ),
        "sqrtsoftplus": (
            lambda *out: ops.topk_hash_softplus_sqrt(*out, logits, True, 2.5, bias),
            router.choose(router.sqrt_softplus_scores(logits), 3, bias=bias, renormalize=True, scaling=2.5),
        ),
        "table": (
            lambda *out: ops.topk_hash_softplus_sqrt(*out, logits, True, 1.0, None, tokens, table, padding),
            router.choose(
                router.sqrt_softplus_scores(logits),
                3,
                renormalize=True,
                given_ids=table[tokens],
                is_padding=padding,
            ),
        ),
    }
    for name, (call, wanted) in calls.items():
        weights, ids, rows = buffers(5, 3, dtype)
        call(weights, ids, rows)
        assert torch.equal(ids.long(), wanted.ids), name
        torch.testing.assert_close(weights, wanted.weights)
        assert rows.tolist() == [[token + 5 * slot for slot in range(3)] for token in range(5)]


def test_a_table_of_experts_needs_token_ids() -> None:
    from vllm import _custom_ops as ops

    with pytest.raises(ValueError, match="needs the token ids"):
        ops.topk_hash_softplus_sqrt(
            *buffers(2, 2), torch.zeros(2, 4), hash_indices_table=torch.zeros(3, 2, dtype=torch.int64)
        )


@pytest.mark.parametrize("scoring", [0, 1])
def test_grouped_topk_scores_by_itself_or_takes_scores(scoring: int) -> None:
    logits = torch.randn(4, 16, generator=torch.Generator().manual_seed(4))
    bias = torch.zeros(16)
    given = logits if scoring else router.sigmoid_scores(logits)
    weights, ids = torch.ops._moe_C.grouped_topk(given, 4, 2, 3, True, 2.5, bias, scoring)
    wanted = router.choose_in_groups(
        router.sigmoid_scores(logits), 3, groups=4, kept_groups=2, bias=bias, renormalize=True, scaling=2.5
    )
    assert ids.dtype == torch.int32
    assert torch.equal(ids.long(), wanted.ids)
    torch.testing.assert_close(weights, wanted.weights)
    with pytest.raises(ValueError, match="scoring functions 0 and 1, not 2"):
        clib.grouped_topk(given, 4, 2, 3, True, 2.5, bias, 2)


@pytest.mark.parametrize(("experts", "groups"), [(64, 1), (10, 4), (4, 8)])
def test_B7_the_grouped_router_runs_where_groups_do_not_divide_the_experts(
    experts: int, groups: int, vllm_config: object
) -> None:
    from vllm.model_executor.layers.fused_moe.router.grouped_topk_router import GroupedTopKRouter

    logits = torch.randn(3, experts, generator=torch.Generator().manual_seed(5))
    for bias in (None, torch.randn(experts, generator=torch.Generator().manual_seed(6))):
        made = GroupedTopKRouter(4, experts, groups, 1, True, "sigmoid", 1.5, bias)
        weights, ids = made.select_experts(torch.zeros(3, 8), logits)
        # Without groups and without a bias vLLM falls back to a plain softmax choice.
        plain = bias is None and groups > 1
        scores = router.softmax_scores(logits) if plain else router.sigmoid_scores(logits)
        wanted = router.choose(scores, 4, bias=bias, renormalize=True, scaling=1.0 if plain else 1.5)
        assert torch.equal(ids.long().sort(-1).values, wanted.ids.sort(-1).values)
        torch.testing.assert_close(weights.sort(-1).values, wanted.weights.sort(-1).values)


def test_moe_sum_skips_slots_nobody_computed() -> None:
    from vllm import _custom_ops as ops

    values = torch.randn(3, 2, 5, generator=torch.Generator().manual_seed(7))
    out = torch.empty(3, 5)
    ops.moe_sum(values, out)
    torch.testing.assert_close(out, values.sum(1))
    ids, expert_map = torch.tensor([[0, -1], [2, 1], [1, 3]]), torch.tensor([0, -1, 1, -1])
    poisoned = values.clone()
    poisoned[0, 1] = poisoned[1, 1] = poisoned[2] = float("nan")
    ops.moe_sum(poisoned, out, ids, expert_map)
    assert torch.equal(out, torch.stack([values[0, 0], values[1, 0], torch.zeros(5)]))


def aligned(ids: torch.Tensor, experts: int, block: int, expert_map: torch.Tensor | None) -> Any:
    """Plain Python."""
    flat = ids.flatten().tolist()
    places, owners = [], []
    for expert in range(experts):
        mine = []
        for route, chosen in enumerate(flat):
            if not 0 <= chosen < experts:
                continue
            if (chosen if expert_map is None else int(expert_map[chosen])) == expert:
                mine.append(route)
        blocks = -(-len(mine) // block)
        places += mine + [len(flat)] * (blocks * block - len(mine))
        owners += [expert] * blocks
    return SimpleNamespace(places=places, owners=owners)


@pytest.mark.parametrize("mapped", [True, False])
@pytest.mark.parametrize("block", [1, 4, 16])
@pytest.mark.parametrize(("tokens", "top_k", "experts"), [(1, 1, 1), (7, 3, 4), (40, 2, 8), (5, 2, 64)])
def test_alignment_puts_every_route_into_a_block_of_its_expert(
    tokens: int, top_k: int, experts: int, block: int, mapped: bool
) -> None:
    random = torch.Generator().manual_seed(tokens)
    ids = torch.randint(-1, experts + 1, (tokens, top_k), generator=random, dtype=torch.int32)
    expert_map = None
    if mapped:
        expert_map = torch.randperm(experts, generator=random).to(torch.int32)
        expert_map[::3] = -1
    size = ids.numel() + experts * (block - 1)
    places = torch.full((size,), -7, dtype=torch.int32)
    owners = torch.full((-(-size // block),), -7, dtype=torch.int32)
    used = torch.full((1,), -7, dtype=torch.int32)
    from vllm import _custom_ops as ops

    ops.moe_align_block_size(ids, experts, block, places, owners, used, expert_map)
    wanted = aligned(ids, experts, block, expert_map)
    assert used.item() == len(wanted.places)
    assert places.tolist() == wanted.places + [ids.numel()] * (size - len(wanted.places))
    assert owners.tolist() == wanted.owners + [-1] * (len(owners) - len(wanted.owners))


def test_operators_that_exist_are_kept_and_defining_twice_adds_nothing() -> None:
    _, first = clib.define_missing_operators()
    assert set(first) == {
        "topk_softmax",
        "topk_sigmoid",
        "topk_softplus_sqrt",
        "grouped_topk",
        "moe_sum",
        "moe_align_block_size",
    }
    assert clib.define_missing_operators()[1] == first
    _, again = clib.define_missing_operators.__wrapped__()
    assert again == ()
