"""Providers ``fl`` of vLLM's IR operators. Importing this module registers them; vLLM imports it for that."""

from __future__ import annotations

import torch
from vllm import ir

from vllm_fl import envs
from vllm_fl.dispatch import bind
from vllm_fl.ops.norms import normalize
from vllm_fl.ops.opaque import Norm, is_traced

ENABLED = envs.read().oot_layer_enabled("rms_norm")

dispatched_rms_norm = bind("rms_norm")


@ir.ops.rms_norm.register_impl("fl", supported=ENABLED)
def rms_norm(
    x: torch.Tensor, weight: torch.Tensor | None, epsilon: float, variance_size: int | None = None
) -> torch.Tensor:
    """Norm over the last dimension, in fp32, returned in the dtype of ``x``."""
    if variance_size is None:
        if is_traced(x):
            return torch.ops.vllm_fl.rms_norm(x, weight, epsilon)
        return dispatched_rms_norm(Norm(weight, epsilon), x)
    return normalize(x.float(), weight, epsilon, variance_size).to(x.dtype)


# Some implementations write into their arguments; vLLM hands over copies where that would show.
@ir.ops.fused_add_rms_norm.register_impl("fl", supported=ENABLED, inplace=True)
def fused_add_rms_norm(
    x: torch.Tensor,
    x_residual: torch.Tensor,
    weight: torch.Tensor | None,
    epsilon: float,
    variance_size: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Norm of ``x + x_residual``, and that sum in the dtype of ``x``, which is the next residual."""
    if variance_size is None:
        if is_traced(x):
            return torch.ops.vllm_fl.fused_add_rms_norm(x, x_residual, weight, epsilon)
        return dispatched_rms_norm(Norm(weight, epsilon), x, x_residual)
    total = x.float() + x_residual.float()
    return normalize(total, weight, epsilon, variance_size).to(x.dtype), total.to(x.dtype)
