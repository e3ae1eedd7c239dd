"""Providers ``fl`` of vLLM's IR operators. Importing this module registers them; vLLM imports it for that.

A norm is computed in fp32: ``x * rsqrt(mean(x^2) + epsilon)``, times the weight in the weight's dtype.
"""

from __future__ import annotations

import torch
from vllm import ir

from vllm_fl import envs

ENABLED = envs.read().oot_layer_enabled("rms_norm")


def normalize(
    x: torch.Tensor, weight: torch.Tensor | None, epsilon: float, variance_size: int | None
) -> torch.Tensor:
    """Root-mean-square norm over the last dimension of fp32 ``x``; the first ``variance_size`` count."""
    measured = x if variance_size is None else x[..., :variance_size]
    x = x * torch.rsqrt(measured.square().mean(-1, keepdim=True) + epsilon)
    return x if weight is None else x.to(weight.dtype) * weight


@ir.ops.rms_norm.register_impl("fl", supported=ENABLED)
def rms_norm(
    x: torch.Tensor, weight: torch.Tensor | None, epsilon: float, variance_size: int | None = None
) -> torch.Tensor:
    return normalize(x.float(), weight, epsilon, variance_size).to(x.dtype)


@ir.ops.fused_add_rms_norm.register_impl("fl", supported=ENABLED)
def fused_add_rms_norm(
    x: torch.Tensor,
    x_residual: torch.Tensor,
    weight: torch.Tensor | None,
    epsilon: float,
    variance_size: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Norm of ``x + x_residual``, and that sum in the dtype of ``x``, which is the next residual."""
    total = x.float() + x_residual.float()
    return normalize(total, weight, epsilon, variance_size).to(x.dtype), total.to(x.dtype)
