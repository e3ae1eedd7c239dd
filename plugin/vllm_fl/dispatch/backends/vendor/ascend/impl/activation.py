"""Gated activations on torch_npu."""

from __future__ import annotations

from typing import Any

import torch
import torch_npu

from vllm_fl.dispatch.types import DispatchUnsupported


def silu_and_mul(obj: Any, x: torch.Tensor) -> torch.Tensor:
    """``npu_swiglu``: contiguous, not empty."""
    return torch_npu.npu_swiglu(_whole(x))


def gelu_and_mul(obj: Any, x: torch.Tensor) -> torch.Tensor:
    """``npu_gelu_mul``."""
    return torch_npu.npu_gelu_mul(_whole(x), approximate=obj.approximate)


def _whole(x: torch.Tensor) -> torch.Tensor:
    if x.numel() == 0:
        raise DispatchUnsupported("the kernel takes no empty tensors")
    return x.contiguous()
