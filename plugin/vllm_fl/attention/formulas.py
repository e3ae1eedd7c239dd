"""The attention formula on dense, padded tensors.

``softmax(q k^T * scale + mask) v`` with grouped heads: query head ``h`` reads key-value head
``h // (heads / kv_heads)``. Sums are kept in fp32 whatever the inputs are.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F


def visible(
    query_positions: torch.Tensor,
    key_positions: torch.Tensor,
    key_count: torch.Tensor,
    *,
    causal: bool,
    window: int | None,
) -> torch.Tensor:
    """Which keys a query may see, by absolute position in its sequence.

    Args:
        query_positions: (batch, queries) int64.
        key_positions: (batch, keys) int64; those at or past ``key_count`` are padding.
        key_count: (batch,) int64, first position that does not exist.
        causal: hide keys after the query.
        window: a query sees the ``window`` positions that end at its own, and without ``causal`` as many
            after it; None: no limit.

    Returns (batch, 1, queries, keys) bool.
    """
    distance = query_positions[:, :, None] - key_positions[:, None, :]
    seen = (key_positions < key_count[:, None])[:, None, :].expand_as(distance)
    if causal:
        seen = seen & (distance >= 0)
    if window is not None:
        seen = seen & (distance < window) & (distance > -window)
    return seen[:, None]


def linear_bias(
    slopes: torch.Tensor, query_positions: torch.Tensor, key_positions: torch.Tensor
) -> torch.Tensor:
    """Bias of https://arxiv.org/abs/2108.12409: ``slope * (key - query)``.

    Takes slopes (heads,) and positions (batch, queries) and (batch, keys); returns
    (batch, heads, queries, keys) of the slopes' dtype.
    """
    distance = key_positions[:, None, None, :] - query_positions[:, None, :, None]
    return slopes[:, None, None] * distance.to(slopes.dtype)


def attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    scale: float,
    *,
    mask: torch.Tensor | None = None,
    square_causal: bool = False,
    soft_cap: float | None = None,
    sinks: torch.Tensor | None = None,
) -> torch.Tensor:
    """Attention of a padded batch.

    Args:
        query: (batch, queries, heads, dim).
        key: (batch, keys, kv_heads, dim).
        value: (batch, keys, kv_heads, value_dim).
        scale: factor of the scores, from the head size of the model even where ``dim`` is padded.
        mask: bool, True where visible, or a float bias, that expands to (batch, heads, queries, keys).
        square_causal: as many keys as queries, each seeing those up to its own; instead of ``mask``.
        soft_cap: scores become ``soft_cap * tanh(score / soft_cap)`` (before the mask).
        sinks: (heads,) logits that take part in the softmax without a value.

    Returns (batch, queries, heads, value_dim) in the query's dtype. Every query must see a key.
    """
    batch, queries, heads, _ = query.shape
    kv_heads = key.shape[2]
    key, value = key.transpose(1, 2), value.transpose(1, 2)
    if soft_cap is not None or sinks is not None:
        if square_causal:
            mask = torch.ones(queries, queries, dtype=torch.bool, device=query.device).tril_()[None, None]
        return _explicit(query, key, value, scale, mask, soft_cap, sinks)
    if queries == 1 and not square_causal:
        # The heads that share a key-value head stand in for several queries, so that keys are read once.
        if mask is not None and mask.shape[1] != 1:
            mask = mask.view(batch, kv_heads, heads // kv_heads, -1)
        grouped = query.view(batch, kv_heads, heads // kv_heads, -1)
        out = F.scaled_dot_product_attention(grouped, key, value, attn_mask=mask, scale=scale)
        return out.reshape(batch, 1, heads, -1)
    out = F.scaled_dot_product_attention(
        query.transpose(1, 2),
        key,
        value,
        attn_mask=mask,
        is_causal=square_causal,
        scale=scale,
        enable_gqa=heads != kv_heads,
    )
    return out.transpose(1, 2)


def _explicit(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    scale: float,
    mask: torch.Tensor | None,
    soft_cap: float | None,
    sinks: torch.Tensor | None,
) -> torch.Tensor:
    repeats = query.shape[2] // key.shape[1]
    key = key.repeat_interleave(repeats, 1).float()
    value = value.repeat_interleave(repeats, 1).float()
    scores = query.transpose(1, 2).float() @ key.transpose(2, 3) * scale
    if soft_cap is not None:
        scores = soft_cap * torch.tanh(scores / soft_cap)
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf")) if mask.dtype == torch.bool else scores + mask
    if sinks is None:
        weights = scores.softmax(-1)
    else:
        sink = sinks.float()[None, :, None, None].expand(*scores.shape[:3], 1)
        weights = torch.cat([scores, sink], -1).softmax(-1)[..., :-1]
    return (weights @ value).transpose(1, 2).to(query.dtype)
