"""The formula of the root-mean-square norm."""

from __future__ import annotations

import torch


def normalize(
    x: torch.Tensor, weight: torch.Tensor | None, epsilon: float, variance_size: int | None
) -> torch.Tensor:
    """``x * rsqrt(mean(x^2) + epsilon)`` over the last dimension of fp32 ``x``, times a weight in its dtype.

    Only the first ``variance_size`` features count for the mean; None: all.
    """
    measured = x if variance_size is None else x[..., :variance_size]
    x = x * torch.rsqrt(measured.square().mean(-1, keepdim=True) + epsilon)
    return x if weight is None else x.to(weight.dtype) * weight
