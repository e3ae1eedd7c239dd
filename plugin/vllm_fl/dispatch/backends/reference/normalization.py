"""Root mean square normalization."""

from __future__ import annotations

from typing import Protocol

import torch

from vllm_fl.ops.norms import normalize


class Norm(Protocol):
    """A layer with the constants of a normalization."""

    weight: torch.Tensor | None
    variance_epsilon: float


def rms_norm(
    obj: Norm, x: torch.Tensor, residual: torch.Tensor | None = None
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """x / sqrt(mean(x^2) + eps) * weight over the last dimension (Zhang and Sennrich 2019).

    With a residual, of the sum of both, which is the second value returned; the sum is normalized before it
    is rounded to the dtype of x. A ``weight`` of None means ones. The arguments stay as they are.
    """
    total = x.float() if residual is None else x.float() + residual.float()
    y = normalize(total, obj.weight, obj.variance_epsilon, None).to(x.dtype)
    return y if residual is None else (y, total.to(x.dtype))
