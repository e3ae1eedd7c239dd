"""Quantization of activations."""

from __future__ import annotations

import torch

_SMALLEST = 1e-10
"""Magnitude taken for a row of zeros, so that its scale is no zero to divide by."""


def dynamic_per_token_quant_int8(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Symmetric int8 with a scale per row: scale = max|x| / 127, q = round half to even of x / scale.

    x [..., N] to int8 [..., N] and fp32 [..., 1]; x is about q * scale.
    """
    wide = x.float()
    scale = wide.abs().amax(dim=-1, keepdim=True).clamp_min(_SMALLEST) / 127
    return torch.round(wide / scale).clamp(-127, 127).to(torch.int8), scale
