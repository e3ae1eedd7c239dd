"""Formulas of the gated delta rule (arXiv 2412.06464), in fp32.

A head keeps a matrix S of shape (values, keys). A token of decay g <= 0 and strength beta does::

    S = exp(g) S
    S = S + beta (v - S k) k^T
    o = S q / sqrt(keys)
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F

CHUNK = 64
"""Tokens whose updates are solved together."""


@dataclass(frozen=True)
class Inputs:
    """What the rule reads, per token. All fp32."""

    query: torch.Tensor
    """(tokens, heads, keys), of unit length, scaled by ``keys ** -0.5``."""
    key: torch.Tensor
    """(tokens, heads, keys), of unit length."""
    value: torch.Tensor
    """(tokens, heads, values)."""
    decay: torch.Tensor
    """(tokens, heads), at most zero."""
    strength: torch.Tensor
    """(tokens, heads), from 0 to 1."""

    def part(self, rows: slice) -> Inputs:
        return Inputs(
            self.query[rows], self.key[rows], self.value[rows], self.decay[rows], self.strength[rows]
        )


def prepare(
    mixed: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    a_log: torch.Tensor,
    dt_bias: torch.Tensor,
    key_heads: int,
    key_size: int,
    value_size: int,
) -> Inputs:
    """Split and normalize what comes out of the convolution.

    Args:
        mixed: (tokens, 2 * key_heads * key_size + heads * value_size): queries, keys, values.
        a, b: (tokens, heads): ``decay = -exp(a_log) softplus(a + dt_bias)``, ``strength = sigmoid(b)``. The
            strength stays fp32: rounding it to 16 bits changes what is remembered.
        a_log, dt_bias: (heads,).
        key_heads: heads of queries and keys; each serves ``heads / key_heads`` consecutive value heads.
    """
    heads = a_log.shape[0]
    sizes = [key_heads * key_size, key_heads * key_size, heads * value_size]
    query, key, value = mixed.float().split(sizes, -1)
    query, key = (
        _unit(part.unflatten(-1, (key_heads, key_size))).repeat_interleave(heads // key_heads, 1)
        for part in (query, key)
    )
    return Inputs(
        query=query * key_size**-0.5,
        key=key,
        value=value.unflatten(-1, (heads, value_size)),
        decay=-a_log.float().exp() * F.softplus(a.float() + dt_bias.float()),
        strength=b.float().sigmoid(),
    )


def _unit(x: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + 1e-6)


def step(inputs: Inputs, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """One token of each sequence: (sequences, heads, values, keys) to the outputs and the next state."""
    state = state * inputs.decay.exp()[..., None, None]
    error = inputs.value - (state @ inputs.key[..., None])[..., 0]
    state = state + (error * inputs.strength[..., None])[..., None] * inputs.key[..., None, :]
    return (state @ inputs.query[..., None])[..., 0], state


@dataclass(frozen=True)
class ChunkPlan:
    """How sequences are cut into chunks: all first chunks, then all second ones, longest sequence first."""

    order: torch.Tensor
    """(sequences,) int64, the sequences by falling length; empty ones last."""
    rows: torch.Tensor
    """(chunks, CHUNK) int64, token of each place; places past a sequence's end repeat its last token."""
    used: torch.Tensor
    """(chunks, CHUNK) bool."""
    active: tuple[int, ...]
    """How many sequences have a first chunk, a second one, and so on."""


def plan_chunks(lengths: list[int], device: torch.device) -> ChunkPlan:
    """Plan sequences of these lengths that follow each other in one tensor."""
    order = sorted(range(len(lengths)), key=lambda i: lengths[i], reverse=True)
    starts = torch.tensor([0, *lengths]).cumsum(0)
    parts = []
    active = []
    for first in range(0, max(lengths, default=0), CHUNK):
        some = [i for i in order if lengths[i] > first]
        active.append(len(some))
        parts += [(int(starts[i]) + first, int(starts[i]) + lengths[i]) for i in some]
    begin, end = torch.tensor(parts, dtype=torch.int64).view(-1, 2).T.to(device)
    rows = begin[:, None] + torch.arange(CHUNK, device=device)
    return ChunkPlan(
        order=torch.tensor(order, dtype=torch.int64, device=device),
        rows=torch.minimum(rows, end[:, None] - 1),
        used=rows < end[:, None],
        active=tuple(active),
    )


def chunked(inputs: Inputs, state: torch.Tensor, plan: ChunkPlan) -> tuple[torch.Tensor, torch.Tensor]:
    """Whole sequences, one after the other in ``inputs``.

    Within a chunk of cumulative decay G the corrections ``r_i = beta_i (v_i - S_i k_i)`` solve the triangular
    system ``r_i + beta_i sum_{j<i} exp(G_i - G_j) (k_i . k_j) r_j = beta_i (v_i - exp(G_i) S_0 k_i)``, so all
    chunks are solved at once up to their S_0, which then goes from chunk to chunk.

    Takes and returns states (sequences, heads, values, keys); outputs are (tokens, heads, values).
    """
    chunks = plan.rows.shape[0]

    def cut(x: torch.Tensor) -> torch.Tensor:
        """(tokens, heads, ...) to (chunks, heads, CHUNK, ...)."""
        return x.index_select(0, plan.rows.flatten()).unflatten(0, (chunks, CHUNK)).transpose(1, 2)

    unused = ~plan.used[:, None]
    query, key, value = cut(inputs.query), cut(inputs.key), cut(inputs.value)
    # A token without decay and strength changes nothing.
    strength = cut(inputs.strength).masked_fill(unused, 0.0)[..., None]
    total = cut(inputs.decay).masked_fill(unused, 0.0).cumsum(-1)
    later = torch.ones(CHUNK, CHUNK, dtype=torch.bool, device=key.device).triu(1)
    ratio = (total[..., :, None] - total[..., None, :]).masked_fill(later, float("-inf")).exp()
    gathered = total.exp()[..., None]

    overlap = strength * (key @ key.mT) * ratio
    right = strength * torch.cat([value, gathered * key], -1)
    solved = torch.linalg.solve_triangular(overlap, right, upper=False, unitriangular=True)
    correction, reading = solved.split([value.shape[-1], key.shape[-1]], -1)
    within = (query @ key.mT) * ratio
    query = query * gathered
    kept = key * (total[..., -1:] - total).exp()[..., None]
    remaining = gathered[..., -1:, :]

    state = state.float().index_select(0, plan.order)
    outputs = torch.empty_like(value)
    first = 0
    for count in plan.active:
        now = slice(first, first + count)
        before = state[:count]
        update = correction[now] - reading[now] @ before.mT
        outputs[now] = query[now] @ before.mT + within[now] @ update
        state[:count] = before * remaining[now] + update.mT @ kept[now]
        first += count
    flat = torch.zeros_like(inputs.value)
    # Places past a sequence's end repeat its last token; only used places may write.
    flat.index_copy_(0, plan.rows[plan.used], outputs.transpose(1, 2)[plan.used])
    return flat, torch.empty_like(state).index_copy_(0, plan.order, state)
