"""Gated activations."""

from __future__ import annotations

from typing import Protocol

import torch
from torch.nn import functional


class Gelu(Protocol):
    """A layer that says which form of GELU it means."""

    approximate: str


def silu_and_mul(obj: object, x: torch.Tensor) -> torch.Tensor:
    """silu(a) * b for x = [a, b] (SwiGLU, Shazeer 2020). x [..., 2N] to [..., N], same dtype."""
    gate, up = x.float().chunk(2, dim=-1)
    return (functional.silu(gate) * up).to(x.dtype)


def gelu_and_mul(obj: Gelu, x: torch.Tensor) -> torch.Tensor:
    """gelu(a) * b for x = [a, b] (GEGLU, Shazeer 2020). x [..., 2N] to [..., N], same dtype."""
    gate, up = x.float().chunk(2, dim=-1)
    return (functional.gelu(gate, approximate=obj.approximate) * up).to(x.dtype)
