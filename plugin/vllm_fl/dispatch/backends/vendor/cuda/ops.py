"""The operators' signatures on top of vLLM's CUDA extension."""

from __future__ import annotations

from typing import Any

import torch
from vllm import _custom_ops
from vllm._custom_ops import grouped_topk, moe_align_block_size, moe_sum, topk_softmax
from vllm.model_executor.layers.fused_moe.fused_moe import invoke_fused_moe_triton_kernel

from vllm_fl.dispatch.types import DispatchUnsupported

__all__ = [
    "dynamic_per_token_quant_int8",
    "gelu_and_mul",
    "grouped_topk",
    "invoke_fused_moe_triton_kernel",
    "moe_align_block_size",
    "moe_sum",
    "rms_norm",
    "rotary_embedding",
    "silu_and_mul",
    "topk_softmax",
]


def _half(x: torch.Tensor) -> torch.Tensor:
    return torch.empty((*x.shape[:-1], x.shape[-1] // 2), dtype=x.dtype, device=x.device)


def silu_and_mul(obj: Any, x: torch.Tensor) -> torch.Tensor:
    out = _half(x)
    torch.ops._C.silu_and_mul(out, x)
    return out


def gelu_and_mul(obj: Any, x: torch.Tensor) -> torch.Tensor:
    out = _half(x)
    kernel = torch.ops._C.gelu_tanh_and_mul if obj.approximate == "tanh" else torch.ops._C.gelu_and_mul
    kernel(out, x)
    return out


def rms_norm(
    obj: Any, x: torch.Tensor, residual: torch.Tensor | None = None
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    if residual is None:
        out = torch.empty_like(x)
        _custom_ops.rms_norm(out, x, obj.weight, obj.variance_epsilon)
        return out
    _custom_ops.fused_add_rms_norm(x, residual, obj.weight, obj.variance_epsilon)
    return x, residual


def rotary_embedding(
    obj: Any,
    q: torch.Tensor,
    k: torch.Tensor | None,
    cos: torch.Tensor,
    sin: torch.Tensor,
    pos: torch.Tensor,
    rotary_interleaved: bool = False,
    inplace: bool = True,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    if 2 * cos.shape[-1] > q.shape[-1]:
        raise DispatchUnsupported("the kernel takes tables of half the rotated size")
    table = torch.cat((cos, sin), dim=-1).to(q.dtype)
    if not inplace:
        q, k = q.clone(), None if k is None else k.clone()
    flat_q = q.view(pos.numel(), -1)
    flat_k = None if k is None else k.view(pos.numel(), -1)
    _custom_ops.rotary_embedding(
        pos.flatten(), flat_q, flat_k, q.shape[-1], table, is_neox=not rotary_interleaved
    )
    return q, k


def dynamic_per_token_quant_int8(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    quantized, scales, _ = _custom_ops.scaled_int8_quant(x)
    return quantized, scales
