"""Quantization of activations on torch_npu."""

from __future__ import annotations

import torch
import torch_npu

from vllm_fl.dispatch.types import DispatchUnsupported


def dynamic_per_token_quant_int8(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """``npu_dynamic_quant``: fp16 or bf16, two dimensions or more; its scales have no last dimension."""
    if x.dim() < 2:
        raise DispatchUnsupported("the kernel takes two dimensions or more")
    quantized, scales = torch_npu.npu_dynamic_quant(x)
    return quantized, scales.unsqueeze(-1)
