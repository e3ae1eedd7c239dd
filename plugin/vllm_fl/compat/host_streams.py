"""CUDA streams, events and unified memory on the host, for the second model runner.

That runner takes streams from ``torch.cuda`` and buffers both sides can see from pinned memory. vLLM's own
CPU platform has stand-ins for them in a module that installs them when it is imported.
"""

from __future__ import annotations

from vllm_fl.compat import Patch
from vllm_fl.compat.accelerator import HOST_ACCELERATOR_API


def _needed() -> bool:
    import torch

    return not torch.accelerator.is_available()


def _apply() -> None:
    import vllm.v1.worker.cpu.shm  # noqa: F401

    # The module replaces the memory query by one that reads the NUMA layout, which containers may hide.
    HOST_ACCELERATOR_API.apply()


HOST_STREAMS = Patch("torch.cuda.Stream", "0.28", _needed, _apply)
