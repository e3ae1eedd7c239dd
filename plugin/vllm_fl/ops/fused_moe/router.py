"""Formulas that choose the experts of a token. Everything is computed in fp32."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F


class Routes(NamedTuple):
    """The chosen experts of each token."""

    weights: torch.Tensor
    """(tokens, top_k) fp32."""
    ids: torch.Tensor
    """(tokens, top_k) int64; -1 where there is no token to compute."""


def softmax_scores(logits: torch.Tensor) -> torch.Tensor:
    return _finite(logits.float().softmax(-1))


def sigmoid_scores(logits: torch.Tensor) -> torch.Tensor:
    return _finite(logits.float().sigmoid())


def sqrt_softplus_scores(logits: torch.Tensor) -> torch.Tensor:
    return _finite(F.softplus(logits.float()).sqrt())


def _finite(scores: torch.Tensor) -> torch.Tensor:
    return torch.nan_to_num(scores, nan=0.0, posinf=0.0, neginf=0.0)


def _ranking(scores: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """Scores to choose by. A bias that is not a number puts its expert last."""
    if bias is None:
        return scores
    return torch.nan_to_num(scores + bias.float(), nan=torch.finfo(torch.float32).min)


def choose(
    scores: torch.Tensor,
    top_k: int,
    *,
    bias: torch.Tensor | None = None,
    renormalize: bool = False,
    scaling: float = 1.0,
    given_ids: torch.Tensor | None = None,
    is_padding: torch.Tensor | None = None,
) -> Routes:
    """The ``top_k`` best experts of each token, best first.

    Args:
        scores: (tokens, experts) fp32, finite.
        bias: (experts,) added for the choice only; weights come from the plain scores.
        renormalize: divide the weights of a token by their sum.
        scaling: factor of the weights, applied after ``renormalize``.
        given_ids: (tokens, top_k) experts that were chosen otherwise (by a table of token ids).
        is_padding: (tokens,) bool, rows without a token: id -1, weight 0.
    """
    if given_ids is None:
        ids = _ranking(scores, bias).topk(top_k, dim=-1).indices
    else:
        ids = given_ids.to(torch.int64)
    return _routes(scores.gather(1, ids), ids, renormalize, scaling, is_padding)


def choose_in_groups(
    scores: torch.Tensor,
    top_k: int,
    *,
    groups: int,
    kept_groups: int,
    bias: torch.Tensor | None = None,
    renormalize: bool = False,
    scaling: float = 1.0,
) -> Routes:
    """As :func:`choose`, among the experts of each token's ``kept_groups`` best groups.

    A group is as good as its best expert or, with a bias, as its two best together (arXiv 2412.19437, 2.1.2).
    Groups are consecutive experts of equal number: raises ValueError unless ``groups`` divides them.
    """
    tokens, experts = scores.shape
    if experts % groups:
        raise ValueError(f"{experts} experts cannot form {groups} equal groups")
    ranking = _ranking(scores, bias)
    members = ranking.view(tokens, groups, -1)
    quality = members.amax(-1) if bias is None else members.topk(min(2, members.shape[-1])).values.sum(-1)
    kept = torch.zeros_like(quality, dtype=torch.bool).scatter_(1, quality.topk(kept_groups).indices, True)
    ids = members.masked_fill(~kept[:, :, None], float("-inf")).view(tokens, experts).topk(top_k).indices
    return _routes(scores.gather(1, ids), ids, renormalize, scaling, None)


def _routes(
    weights: torch.Tensor,
    ids: torch.Tensor,
    renormalize: bool,
    scaling: float,
    is_padding: torch.Tensor | None,
) -> Routes:
    if renormalize:
        total = weights.sum(-1, keepdim=True)
        weights = weights / total.masked_fill(total <= 0, 1.0)
    weights = weights * scaling
    if is_padding is not None:
        weights = weights.masked_fill(is_padding[:, None], 0.0)
        ids = ids.masked_fill(is_padding[:, None], -1)
    return Routes(weights, ids)


def table_experts(table: torch.Tensor, token_ids: torch.Tensor) -> torch.Tensor:
    """Experts that ``table`` (vocabulary, top_k) assigns to ``token_ids`` (tokens,).

    Rows that pad a step hold any number as token id, so ids are brought into the table first.
    """
    return table.index_select(0, token_ids.to(torch.int64).clamp(0, table.shape[0] - 1))
