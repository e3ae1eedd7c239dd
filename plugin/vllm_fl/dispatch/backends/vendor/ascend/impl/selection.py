"""Attention backend of the device."""

from __future__ import annotations

from vllm_fl.devices.ascend import ASCEND
from vllm_fl.dispatch.types import DispatchUnsupported


def attention_backend(use_mla: bool, use_sparse: bool) -> str:
    """Dotted name of the backend class."""
    name = ASCEND.mla_attention if use_mla else ASCEND.attention
    if use_sparse or not name:
        raise DispatchUnsupported("no sparse attention and no multi-head latent attention on this device")
    return name
