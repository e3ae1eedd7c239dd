"""Causal depthwise convolution over sequences that arrive in parts.

Each sequence keeps its last ``width - 1`` inputs in a slot of a state cache. Slots below 1 mean that there is
no sequence (0 is vLLM's null block, -1 pads a batch): its output is zero and no state is touched.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

NULL_SLOT = 0


def causal_conv1d_fn(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    states: torch.Tensor,
    query_starts: torch.Tensor,
    slots: torch.Tensor,
    has_initial_state: torch.Tensor | None = None,
    activation: str | None = "silu",
) -> torch.Tensor:
    """Convolve sequences of any length, shorter than the filter and empty ones included.

    Args:
        x: (tokens, channels), one sequence after the other.
        weight: (channels, width); the last column meets the current token.
        bias: (channels,).
        states: (slots, channels, width - 1), oldest input first, any strides; updated in place.
        query_starts: (sequences + 1,) integers, first token of each sequence and the number of tokens.
        slots: (sequences,) integers.
        has_initial_state: (sequences,) bool, False where the slot holds nothing yet; None: nowhere.
        activation: "silu", "swish" (the same) or None.

    Returns (tokens, channels) in the dtype of ``x``; sums are kept in fp32. Raises ValueError for shapes that
    do not fit and for another activation. Inputs enter the state exactly.
    """
    width = _check(x, weight, states, activation)
    starts = query_starts.to(torch.int64)
    sequences = starts.shape[0] - 1
    tokens = torch.arange(x.shape[0], device=x.device)
    owner = (torch.searchsorted(starts, tokens, right=True) - 1).clamp(max=sequences - 1)
    # Each sequence's history is put before its tokens, so that a tap is a row a fixed distance back.
    kept = width - 1
    history_rows = (starts[:-1, None] + kept * torch.arange(sequences, device=x.device)[:, None]) + (
        torch.arange(kept, device=x.device)
    )
    token_rows = tokens + kept * (owner + 1)
    safe = slots.clamp(min=NULL_SLOT)
    history = states.index_select(0, safe).transpose(1, 2)
    if has_initial_state is None:
        history = torch.zeros_like(history)
    else:
        history = history.masked_fill(~has_initial_state[:, None, None], 0.0)
    wide = torch.promote_types(x.dtype, states.dtype)
    rows = torch.empty(x.shape[0] + sequences * kept, x.shape[1], dtype=wide, device=x.device)
    rows.index_copy_(0, history_rows.flatten(), history.flatten(0, 1).to(wide))
    rows.index_copy_(0, token_rows, x.to(wide))

    out = torch.zeros(x.shape, dtype=torch.float32, device=x.device)
    for tap in range(width):
        out += rows.index_select(0, token_rows - kept + tap).float() * weight[:, tap].float()
    present = (slots > NULL_SLOT).index_select(0, owner)
    out = _finish(out, bias, activation, present).to(x.dtype)

    last_rows = (history_rows + (starts[1:] - starts[:-1])[:, None]).flatten()
    tails = rows.index_select(0, last_rows).view(sequences, kept, -1).transpose(1, 2)
    _store(states, slots, (slots > NULL_SLOT) & (starts[1:] > starts[:-1]), tails)
    return out


def causal_conv1d_update(
    x: torch.Tensor,
    states: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    slots: torch.Tensor,
    has_initial_state: torch.Tensor | None = None,
    activation: str | None = "silu",
) -> torch.Tensor:
    """One more token of each sequence; otherwise as :func:`causal_conv1d_fn`.

    Takes ``x`` (sequences, channels), returns the same shape and dtype. Without ``has_initial_state`` every
    sequence has one.
    """
    _check(x, weight, states, activation)
    history = states.index_select(0, slots.clamp(min=NULL_SLOT))
    if has_initial_state is not None:
        history = history.masked_fill(~has_initial_state[:, None, None], 0.0)
    wide = torch.promote_types(x.dtype, states.dtype)
    window = torch.cat([history.to(wide), x.to(wide)[:, :, None]], -1)
    present = slots > NULL_SLOT
    out = _finish((window.float() * weight.float()).sum(-1), bias, activation, present).to(x.dtype)
    _store(states, slots, present, window[:, :, 1:])
    return out


def _check(x: torch.Tensor, weight: torch.Tensor, states: torch.Tensor, activation: str | None) -> int:
    if activation not in ("silu", "swish", None):
        raise ValueError(f"Convolution activation {activation!r} is not supported; use 'silu' or None")
    channels, width = weight.shape
    if x.shape[-1] != channels or tuple(states.shape[1:]) != (channels, width - 1):
        raise ValueError(
            f"Convolution shapes do not fit: x {tuple(x.shape)}, weight {tuple(weight.shape)}, "
            f"states {tuple(states.shape)}"
        )
    return int(width)


def _finish(
    out: torch.Tensor, bias: torch.Tensor | None, activation: str | None, present: torch.Tensor
) -> torch.Tensor:
    if bias is not None:
        out = out + bias.float()
    if activation is not None:
        out = F.silu(out)
    return out.masked_fill(~present[:, None], 0.0)


def _store(states: torch.Tensor, slots: torch.Tensor, kept: torch.Tensor, rows: torch.Tensor) -> None:
    states.index_copy_(0, slots[kept].to(torch.int64), rows[kept].to(states.dtype))
