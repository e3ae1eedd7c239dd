"""Attention of the reference device."""

from __future__ import annotations

from vllm_fl.devices.cpu import CPU
from vllm_fl.dispatch.types import DispatchUnsupported


def attention_backend(use_mla: bool, use_sparse: bool) -> str:
    """Dotted name of the backend class."""
    if use_sparse:
        raise DispatchUnsupported("no sparse attention in plain torch")
    return CPU.mla_attention if use_mla else CPU.attention
