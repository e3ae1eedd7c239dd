"""Rotary position embedding."""

from __future__ import annotations

import torch


def rotary_embedding(
    obj: object,
    q: torch.Tensor,
    k: torch.Tensor | None,
    cos: torch.Tensor,
    sin: torch.Tensor,
    pos: torch.Tensor,
    rotary_interleaved: bool = False,
    inplace: bool = True,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Rotate pairs of features by the angle of their position (Su et al. 2021), in fp32.

    q [T, H, D] or [B, S, H, D]; k alike with its own number of heads, or None. cos and sin [positions, D], or
    [positions, R/2] for a rotated size R up to D: features past R stay as they are. ``pos`` holds T = B * S
    indices, int32 or int64. Pairs are (i, i + R/2), or (2i, 2i + 1) when interleaved.

    Raises ValueError for shapes, dtypes or devices that do not fit together.
    """
    width = _check(q, k, cos, sin, pos)
    cos, sin = (
        _half(table, width, rotary_interleaved).index_select(0, pos.reshape(-1)) for table in (cos, sin)
    )
    rotated_q = _rotate(q, cos, sin, rotary_interleaved)
    rotated_k = None if k is None else _rotate(k, cos, sin, rotary_interleaved)
    if not inplace:
        return rotated_q, rotated_k
    q.copy_(rotated_q)
    if k is not None and rotated_k is not None:
        k.copy_(rotated_k)
    return q, k


def _half(table: torch.Tensor, width: int, interleaved: bool) -> torch.Tensor:
    """One angle per pair, of a table that may hold each twice: side by side, or one half after the other."""
    if table.shape[-1] < width:
        return table
    return table[:, 0::2] if interleaved else table[:, : width // 2]


def _rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, interleaved: bool) -> torch.Tensor:
    """x [..., H, D] by angles [T, R/2]."""
    flat = x.reshape(-1, *x.shape[-2:]).float()
    cos, sin = cos.float().unsqueeze(1), sin.float().unsqueeze(1)
    width = 2 * cos.shape[-1]
    turned = flat[..., :width]
    if interleaved:
        first, second = turned[..., 0::2], turned[..., 1::2]
    else:
        first, second = turned.chunk(2, dim=-1)
    pair = (first * cos - second * sin, second * cos + first * sin)
    joined = torch.stack(pair, dim=-1).flatten(-2) if interleaved else torch.cat(pair, dim=-1)
    return torch.cat((joined, flat[..., width:]), dim=-1).to(x.dtype).reshape(x.shape)


def _check(
    q: torch.Tensor, k: torch.Tensor | None, cos: torch.Tensor, sin: torch.Tensor, pos: torch.Tensor
) -> int:
    """The rotated size."""
    for name, x in (("query", q), ("key", k)):
        if x is None:
            continue
        if x.dim() not in (3, 4):
            raise ValueError(f"rotary: {name} must have 3 or 4 dimensions, has {x.dim()}")
        if x.dtype != q.dtype or x.device != q.device:
            raise ValueError(f"rotary: {name} is {x.dtype} on {x.device}, query {q.dtype} on {q.device}")
        if x.shape[-1] != q.shape[-1] or x.shape[-1] % 2:
            raise ValueError(f"rotary: head size of {name} must be even and equal, is {x.shape[-1]}")
        if x.shape[:-2].numel() != pos.numel():
            raise ValueError(
                f"rotary: positions and {name} need equal token counts, have {pos.numel()} and "
                f"{x.shape[:-2].numel()}"
            )
    if pos.dtype not in (torch.int32, torch.int64):
        raise ValueError(f"rotary: positions must be int32 or int64, are {pos.dtype}")
    if cos.dim() != 2 or cos.shape != sin.shape:
        raise ValueError(f"rotary: cos {tuple(cos.shape)} and sin {tuple(sin.shape)} must be equal tables")
    size = q.shape[-1]
    if cos.shape[-1] == size:
        return size
    if 2 * cos.shape[-1] > size:
        raise ValueError(f"rotary: tables of width {cos.shape[-1]} do not fit heads of size {size}")
    return 2 * cos.shape[-1]
