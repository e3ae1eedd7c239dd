"""From the experts of each token to the tokens of each expert."""

from __future__ import annotations

from typing import NamedTuple

import torch


class Grouped(NamedTuple):
    """Routes in the order of the experts that compute them. All tensors are int64."""

    tokens: torch.Tensor
    """(routes,) row of each route's token; an expert's routes are adjacent, in the order of their tokens."""
    routes: torch.Tensor
    """(routes,) position of each route in the flattened (tokens, top_k) table."""
    experts: torch.Tensor
    """(routes,) local expert; routes that nobody computes here come last, with the number of experts."""
    counts: torch.Tensor
    """(experts,) routes of each local expert."""


def local_experts(ids: torch.Tensor, expert_map: torch.Tensor | None, experts: int) -> torch.Tensor:
    """Local expert of each route, or -1 where this rank computes nothing.

    Args:
        ids: (tokens, top_k) integers, global expert ids; negative or too large ones name no expert.
        expert_map: (global experts,) integers, -1 for experts of other ranks; None: ids are local.
        experts: number of local experts.

    Returns the shape and dtype of ``ids``. The map is read by a flat, masked ``index_select``: indexing with
    two dimensions or with -1 fails, or wraps around, depending on the operator library.
    """
    if ids.is_floating_point():
        raise TypeError(f"Expert ids must be integers, not {ids.dtype}")
    flat = ids.flatten()
    known = experts if expert_map is None else expert_map.shape[0]
    valid = (flat >= 0) & (flat < known)
    if expert_map is not None:
        flat = expert_map.index_select(0, flat.masked_fill(~valid, 0)).to(ids.dtype)
        valid = valid & (flat >= 0) & (flat < experts)
    return flat.masked_fill(~valid, -1).view_as(ids)


def group_by_expert(local_ids: torch.Tensor, experts: int) -> Grouped:
    """Sort routes by expert, stably, so that results do not depend on the order of equal keys.

    Takes local ids (tokens, top_k), -1 where there is no expert.
    """
    top_k = local_ids.shape[1]
    keys = local_ids.flatten().to(torch.int64)
    keys = keys.masked_fill(keys < 0, experts)
    ordered, routes = keys.sort(stable=True)
    counts = torch.zeros(experts + 1, dtype=torch.int64, device=keys.device)
    counts.scatter_add_(0, keys, torch.ones_like(keys))
    return Grouped(routes // top_k, routes, ordered, counts[:experts])
