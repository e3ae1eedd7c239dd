"""The operators' signatures on top of FlagGems' functions."""

from __future__ import annotations

import inspect
from typing import Any

import flag_gems
import torch

from vllm_fl.dispatch.types import DispatchUnsupported

_MOST_EXPERTS_PER_TOKEN = 32
_MOST_GROUPS = 32


def silu_and_mul(obj: Any, x: torch.Tensor) -> torch.Tensor:
    gate, up = x.chunk(2, dim=-1)
    return flag_gems.silu_and_mul(gate, up)


def gelu_and_mul(obj: Any, x: torch.Tensor) -> torch.Tensor:
    gate, up = x.chunk(2, dim=-1)
    return flag_gems.gelu_and_mul(gate, up, obj.approximate)


def rms_norm(
    obj: Any, x: torch.Tensor, residual: torch.Tensor | None = None
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    if obj.weight is None:
        raise DispatchUnsupported("FlagGems normalizes with a weight only")
    shape, eps = list(obj.weight.shape), obj.variance_epsilon
    if residual is None:
        return flag_gems.rms_norm(x, shape, obj.weight, eps)
    return flag_gems.fused_add_rms_norm(x, residual, shape, obj.weight, eps)


def rotary_embedding(
    obj: Any,
    q: torch.Tensor,
    k: torch.Tensor | None,
    cos: torch.Tensor,
    sin: torch.Tensor,
    pos: torch.Tensor,
    rotary_interleaved: bool = False,
    inplace: bool = True,
) -> tuple[torch.Tensor, torch.Tensor]:
    if k is None:
        raise DispatchUnsupported("FlagGems rotates query and key together")
    if 2 * cos.shape[-1] != q.shape[-1]:
        raise DispatchUnsupported(
            "FlagGems rotates whole heads, by tables of half their size; heads have "
            f"{q.shape[-1]} features, tables {cos.shape[-1]}"
        )
    arguments: tuple[Any, ...] = (q, k, cos, sin, pos, rotary_interleaved)
    # Releases before the in-place form take six arguments.
    if "inplace" in inspect.signature(flag_gems.apply_rotary_pos_emb).parameters:
        return flag_gems.apply_rotary_pos_emb(*arguments, inplace)
    rotated = flag_gems.apply_rotary_pos_emb(*arguments)
    if not inplace:
        return rotated
    return q.copy_(rotated[0]), k.copy_(rotated[1])


def topk_softmax(
    topk_weights: torch.Tensor,
    topk_ids: torch.Tensor,
    token_expert_indices: torch.Tensor,
    gating_output: torch.Tensor,
    renormalize: bool = False,
    bias: torch.Tensor | None = None,
    is_padding: torch.Tensor | None = None,
) -> None:
    if bias is not None or is_padding is not None:
        raise DispatchUnsupported("FlagGems chooses experts without bias and padding")
    if topk_ids.shape[-1] > _MOST_EXPERTS_PER_TOKEN:
        raise DispatchUnsupported(f"FlagGems chooses at most {_MOST_EXPERTS_PER_TOKEN} experts per token")
    flag_gems.topk_softmax(topk_weights, topk_ids, token_expert_indices, gating_output, renormalize)


def grouped_topk(
    scores: torch.Tensor,
    n_group: int,
    topk_group: int,
    topk: int,
    renormalize: bool,
    routed_scaling_factor: float,
    bias: torch.Tensor,
    scoring_func: int = 0,
) -> tuple[torch.Tensor, torch.Tensor]:
    experts = scores.shape[-1]
    if experts < 2 * n_group or n_group > _MOST_GROUPS or topk > _MOST_EXPERTS_PER_TOKEN:
        raise DispatchUnsupported(f"FlagGems does not choose {topk} of {experts} experts in {n_group} groups")
    return flag_gems.grouped_topk(
        scores, n_group, topk_group, topk, renormalize, routed_scaling_factor, bias, scoring_func
    )


def moe_align_block_size(
    topk_ids: torch.Tensor,
    num_experts: int,
    block_size: int,
    sorted_token_ids: torch.Tensor,
    experts_ids: torch.Tensor,
    num_tokens_post_pad: torch.Tensor,
    expert_map: torch.Tensor | None = None,
) -> None:
    if expert_map is not None:
        raise DispatchUnsupported("FlagGems aligns all experts")
    flag_gems.moe_align_block_size_triton(
        topk_ids, num_experts, block_size, sorted_token_ids, experts_ids, num_tokens_post_pad
    )


def moe_sum(
    input: torch.Tensor,
    output: torch.Tensor,
    topk_ids: torch.Tensor | None = None,
    expert_map: torch.Tensor | None = None,
) -> None:
    if topk_ids is not None or expert_map is not None:
        raise DispatchUnsupported("FlagGems sums every slot, also those without an expert")
    flag_gems.moe_sum(input, output)


def invoke_fused_moe_triton_kernel(*args: Any, **kwargs: Any) -> None:
    flag_gems.invoke_fused_moe_triton_kernel(*args, **kwargs)
