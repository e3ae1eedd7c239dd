"""How a step's requests become a few dense, padded batches.

Planned on the host once per step, from lengths that are known there, and shared by all layers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch

from vllm_fl.attention.formulas import visible

QUERY_CHUNK = 512
"""Queries of one request that attend at once; bounds the mask, and lets early queries skip late keys."""

BATCH_LIMIT = 1 << 22
"""Query-key pairs of one batch (a query counts as 64, because keys are copied whatever their queries)."""


class Piece(NamedTuple):
    """Consecutive queries of one request, and the positions of the keys they can see."""

    request: int
    first_row: int
    """Row of the first query among the step's tokens."""
    queries: int
    first_query: int
    """Position of the first query in its sequence."""
    first_key: int
    end_key: int

    @property
    def keys(self) -> int:
        return self.end_key - self.first_key


@dataclass(frozen=True)
class Batch:
    """Pieces with the same number of queries, their keys padded to the longest."""

    requests: torch.Tensor
    """(batch,) int64."""
    rows: torch.Tensor
    """(batch * queries,) int64, rows of the queries among the step's tokens."""
    query_positions: torch.Tensor
    """(batch, queries) int64."""
    key_positions: torch.Tensor
    """(batch, keys) int64. Padding repeats the last key, so that no other request's data is ever read."""
    mask: torch.Tensor | None
    """(batch, 1, queries, keys) bool, or None when every query sees every key."""
    square_causal: bool
    """As many keys as queries, each query seeing those up to its own; there is no mask then."""

    @property
    def size(self) -> int:
        return self.requests.shape[0]

    @property
    def queries(self) -> int:
        return self.query_positions.shape[1]


def pieces(
    query_starts: list[int], lengths: list[int], *, causal: bool, window: int | None
) -> Iterator[Piece]:
    """Cut the step into pieces.

    Args:
        query_starts: first row of each request and, last, the number of rows; requests may be empty.
        lengths: tokens of each sequence, those of this step included.
        causal, window: as in :func:`vllm_fl.attention.formulas.visible`.
    """
    for request, length in enumerate(lengths):
        start, end = query_starts[request], query_starts[request + 1]
        cached = length - (end - start)
        for row in range(start, end, QUERY_CHUNK):
            queries = min(QUERY_CHUNK, end - row)
            first_query = cached + row - start
            first_key = 0 if window is None else max(0, first_query - window + 1)
            end_key = length
            if causal:
                end_key = first_query + queries
            elif window is not None:
                end_key = min(length, first_query + queries + window - 1)
            yield Piece(request, row, queries, first_query, first_key, end_key)


def batches(
    parts: Iterable[Piece], *, causal: bool, window: int | None, device: torch.device
) -> tuple[Batch, ...]:
    """Join pieces of equal query count, similar key counts together, up to ``BATCH_LIMIT``."""
    by_queries: dict[int, list[Piece]] = {}
    for piece in parts:
        by_queries.setdefault(piece.queries, []).append(piece)
    made = []
    for queries, group in by_queries.items():
        group.sort(key=lambda piece: piece.keys, reverse=True)
        while group:
            room = max(1, BATCH_LIMIT // (max(queries, 64) * group[0].keys))
            made.append(_batch(group[:room], causal, window, device))
            group = group[room:]
    return tuple(made)


def _batch(group: list[Piece], causal: bool, window: int | None, device: torch.device) -> Batch:
    queries, keys = group[0].queries, group[0].keys
    request, first_row, _, first_query, first_key, end_key = torch.tensor(group).T.to(device)
    steps = torch.arange(max(queries, keys), device=device)
    query_positions = first_query[:, None] + steps[:queries]
    key_positions = first_key[:, None] + steps[:keys]
    square = causal and queries == keys and queries > 1 and (window is None or window >= keys)
    one_length = all(piece.keys == keys for piece in group)
    sees_all = one_length and (queries == 1 if causal else window is None)
    mask = None
    if not (square and one_length) and not sees_all:
        mask = visible(query_positions, key_positions, end_key, causal=causal, window=window)
    return Batch(
        requests=request,
        rows=(first_row[:, None] + steps[:queries]).flatten(),
        query_positions=query_positions,
        key_positions=torch.minimum(key_positions, end_key[:, None] - 1),
        mask=mask,
        square_causal=square and one_length,
    )
