"""The formula of the root-mean-square norm."""

from __future__ import annotations

import torch
import torch.nn.functional as F


def normalize(
    x: torch.Tensor, weight: torch.Tensor | None, epsilon: float, variance_size: int | None
) -> torch.Tensor:
    """``x * rsqrt(mean(x^2) + epsilon)`` over the last dimension of fp32 ``x``, times a weight in its dtype.

    Only the first ``variance_size`` features count for the mean; None: all.
    """
    if variance_size is None and weight is not None and weight.dtype == x.dtype:
        return F.rms_norm(x, weight.shape, weight, epsilon)  # the same in one call
    measured = x if variance_size is None else x[..., :variance_size]
    x = x * torch.rsqrt(measured.square().mean(-1, keepdim=True) + epsilon)
    return x if weight is None else x.to(weight.dtype) * weight
