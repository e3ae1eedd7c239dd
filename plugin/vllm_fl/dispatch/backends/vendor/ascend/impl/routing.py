"""Choice of experts on torch_npu."""

from __future__ import annotations

import torch
import torch_npu

from vllm_fl.dispatch.types import DispatchUnsupported


def topk_softmax(
    topk_weights: torch.Tensor,
    topk_ids: torch.Tensor,
    token_expert_indices: torch.Tensor,
    gating_output: torch.Tensor,
    renormalize: bool = False,
    bias: torch.Tensor | None = None,
    is_padding: torch.Tensor | None = None,
) -> None:
    """``npu_moe_gating_top_k_softmax``, which does not renormalize."""
    if bias is not None or is_padding is not None or gating_output.numel() == 0:
        raise DispatchUnsupported("the kernel takes neither bias nor padding, and no empty tensors")
    weights, ids, rows = torch_npu.npu_moe_gating_top_k_softmax(gating_output, None, topk_ids.shape[-1])
    weights = weights.float()
    if renormalize:
        weights = weights / weights.sum(dim=-1, keepdim=True)
    topk_weights.copy_(weights)
    topk_ids.copy_(ids)
    token_expert_indices.copy_(rows)
