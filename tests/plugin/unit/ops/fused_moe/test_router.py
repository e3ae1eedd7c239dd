"""Choice of experts. Rung 1: against plain Python in fp64, and against Hugging Face's and vLLM's formulas."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from vllm_fl.ops.fused_moe import router


def logits_of(tokens: int, experts: int, seed: int = 0) -> torch.Tensor:
    """Distinct values in every row, so that the choice is unique."""
    random = torch.Generator().manual_seed(seed)
    ranks = torch.stack([torch.randperm(experts, generator=random) for _ in range(tokens)])
    return (ranks.float() - experts / 2) * 0.04


def best(scores: list[float], count: int) -> list[int]:
    return sorted(range(len(scores)), key=lambda e: scores[e], reverse=True)[:count]


SCORES: dict[str, Any] = {
    "softmax": (router.softmax_scores, lambda x: x.double().softmax(-1)),
    "sigmoid": (router.sigmoid_scores, lambda x: x.double().sigmoid()),
    "sqrtsoftplus": (
        router.sqrt_softplus_scores,
        lambda x: torch.log1p(x.double().exp()).sqrt(),
    ),
}


@pytest.mark.parametrize("experts", [8, 64, 128, 160, 256, 384])
@pytest.mark.parametrize("name", SCORES)
def test_B66_the_choice_equals_a_sort_for_every_number_of_experts(name: str, experts: int) -> None:
    function, formula = SCORES[name]
    logits = logits_of(5, experts)
    bias = torch.randn(experts, generator=torch.Generator().manual_seed(1)) * 0.01
    wanted = formula(logits)
    for offset in (None, bias):
        routes = router.choose(function(logits), 4, bias=offset, renormalize=True, scaling=2.826)
        for token in range(5):
            ranking = wanted[token] + (0 if offset is None else offset.double())
            chosen = best(ranking.tolist(), 4)
            assert routes.ids[token].tolist() == chosen
            weights = wanted[token][chosen]
            torch.testing.assert_close(
                routes.weights[token].double(), weights / weights.sum() * 2.826, atol=1e-6, rtol=1e-5
            )
    assert routes.weights.dtype == torch.float32


@pytest.mark.parametrize(
    ("experts", "groups", "kept", "top_k"), [(64, 1, 1, 4), (16, 4, 2, 3), (256, 8, 4, 8), (8, 8, 3, 3)]
)
@pytest.mark.parametrize("biased", [True, False])
def test_groups_equal_the_definition(experts: int, groups: int, kept: int, top_k: int, biased: bool) -> None:
    scores = router.sigmoid_scores(logits_of(7, experts, seed=2))
    bias = torch.randn(experts, generator=torch.Generator().manual_seed(3)) * 0.02 if biased else None
    routes = router.choose_in_groups(
        scores, top_k, groups=groups, kept_groups=kept, bias=bias, renormalize=True, scaling=1.5
    )
    size = experts // groups
    for token in range(7):
        ranking = (scores[token] + (0 if bias is None else bias)).tolist()
        members = [ranking[g * size : (g + 1) * size] for g in range(groups)]
        quality = [sum(sorted(m, reverse=True)[: 2 if biased else 1]) for m in members]
        allowed = best(quality, kept)
        chosen = best([s if e // size in allowed else -1e9 for e, s in enumerate(ranking)], top_k)
        assert routes.ids[token].tolist() == chosen
        weights = scores[token][chosen]
        torch.testing.assert_close(routes.weights[token], weights / weights.sum() * 1.5)


def test_groups_must_divide_the_experts() -> None:
    with pytest.raises(ValueError, match="10 experts cannot form 4 equal groups"):
        router.choose_in_groups(torch.rand(1, 10), 2, groups=4, kept_groups=1)


def test_scores_and_biases_that_are_not_numbers_put_an_expert_last() -> None:
    logits = torch.tensor([[float("nan"), 1.0, 2.0, 0.0], [1.0, 2.0, 3.0, 4.0]])
    assert router.sigmoid_scores(logits).isfinite().all()
    assert router.choose(router.sigmoid_scores(logits), 3).ids.tolist()[0] == [2, 1, 3]
    bias = torch.tensor([0.0, float("nan"), 0.0, 0.0])
    ids = router.choose(router.softmax_scores(logits[1:]), 3, bias=bias).ids
    assert ids.tolist() == [[3, 2, 0]]


def test_weights_that_sum_to_zero_are_not_divided() -> None:
    assert router.choose(torch.zeros(1, 4), 2, renormalize=True).weights.tolist() == [[0.0, 0.0]]


def test_B63_padded_rows_have_no_expert() -> None:
    scores = router.softmax_scores(logits_of(4, 8))
    plain = router.choose(scores, 2, renormalize=True)
    padded = router.choose(scores, 2, renormalize=True, is_padding=torch.tensor([False, True, False, True]))
    assert padded.ids.tolist()[1] == padded.ids.tolist()[3] == [-1, -1]
    assert padded.weights[1].tolist() == [0.0, 0.0]
    for row in (0, 2):
        assert torch.equal(padded.ids[row], plain.ids[row])
        assert torch.equal(padded.weights[row], plain.weights[row])


def test_B62_token_ids_out_of_the_table_read_no_other_memory() -> None:
    table = torch.tensor([[0, 1], [2, 3], [4, 5]], dtype=torch.int32)
    found = router.table_experts(table, torch.tensor([1, -1, 7, 2], dtype=torch.int32))
    assert found.tolist() == [[2, 3], [0, 1], [4, 5], [4, 5]]


@pytest.mark.parametrize("renormalize", [True, False])
def test_groups_equal_the_formula_of_vllm_for_deepseek(renormalize: bool) -> None:
    from vllm.model_executor.layers.fused_moe.router.grouped_topk_router import grouped_topk

    logits = logits_of(6, 32, seed=4)
    for scoring, function in (("sigmoid", router.sigmoid_scores), ("softmax", router.softmax_scores)):
        for bias in (None, torch.randn(32, generator=torch.Generator().manual_seed(5)) * 0.02):
            weights, ids = grouped_topk(
                logits, logits, 4, renormalize, 4, 2, scoring, 2.5, e_score_correction_bias=bias
            )
            routes = router.choose_in_groups(
                function(logits),
                4,
                groups=4,
                kept_groups=2,
                bias=bias,
                renormalize=renormalize,
                scaling=2.5,
            )
            order, mine = ids.sort(-1), routes.ids.sort(-1)
            assert torch.equal(order.values.long(), mine.values)
            torch.testing.assert_close(
                weights.gather(1, order.indices), routes.weights.gather(1, mine.indices)
            )
