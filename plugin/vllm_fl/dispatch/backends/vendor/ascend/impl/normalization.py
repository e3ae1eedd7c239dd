"""Root mean square normalization on torch_npu, which accumulates in fp32."""

from __future__ import annotations

from typing import Any

import torch
import torch_npu

from vllm_fl.dispatch.types import DispatchUnsupported


def rms_norm(
    obj: Any, x: torch.Tensor, residual: torch.Tensor | None = None
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """``npu_rms_norm``, or ``npu_add_rms_norm`` whose third value is the sum. Arguments stay as they are."""
    if obj.weight is None or x.numel() == 0:
        raise DispatchUnsupported("the kernel takes a weight, and no empty tensors")
    if residual is None:
        return torch_npu.npu_rms_norm(x, obj.weight, obj.variance_epsilon)[0]
    if obj.weight.dtype != x.dtype:
        raise DispatchUnsupported(f"the kernel takes weight and input of one dtype, not {obj.weight.dtype}")
    y, _, total = torch_npu.npu_add_rms_norm(x, residual, obj.weight, obj.variance_epsilon)
    return y, total
