"""Buffers both sides can address, on a device that is the host.

``vllm.v1.worker.gpu.buffer_utils.UvaBuffer`` maps pinned memory into the device's address space, and vLLM's
stand-in for CPUs insists on its own CPU platform. On the host any tensor is visible to both sides.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from vllm_fl.compat import Patch


class HostBuffer:
    """Zeroed host memory under the three names the second runner uses for it."""

    def __init__(self, size: int | Sequence[int], dtype: torch.dtype) -> None:
        self.cpu = torch.zeros(size, dtype=dtype)
        self.np = self.cpu.numpy()
        self.uva = self.cpu


def _needed() -> bool:
    return not torch.accelerator.is_available()


def _apply() -> None:
    import vllm.v1.worker.gpu.buffer_utils as buffer_utils

    buffer_utils.UvaBuffer = HostBuffer


HOST_BUFFERS = Patch("vllm.v1.worker.gpu.buffer_utils.UvaBuffer", "0.28", _needed, _apply)
