"""``torch.accelerator`` on a machine without an accelerator.

vLLM synchronizes and frees caches unconditionally, also in the engine process when it shuts down; torch
raises there when no accelerator exists.
"""

from __future__ import annotations

from typing import Any

import torch

from vllm_fl.compat import Patch
from vllm_fl.devices.cpu import CPU


def _needed() -> bool:
    return not torch.accelerator.is_available()


def _apply() -> None:
    # Distinct functions: torch's tracer keys its handlers on the identity of these attributes.
    def synchronize(*args: Any, **kwargs: Any) -> None:
        """The host has finished whatever it was asked to do."""

    def empty_cache(*args: Any, **kwargs: Any) -> None:
        """The host allocator keeps no cache."""

    def empty_host_cache(*args: Any, **kwargs: Any) -> None:
        """No pinned memory is cached."""

    def get_memory_info(*args: Any, **kwargs: Any) -> tuple[int, int]:
        free, total = CPU.memory(0)
        return free, total

    torch.accelerator.synchronize = synchronize
    torch.accelerator.empty_cache = empty_cache
    torch.accelerator.empty_host_cache = empty_host_cache
    torch.accelerator.get_memory_info = get_memory_info


HOST_ACCELERATOR_API = Patch("torch.accelerator", "0.28", _needed, _apply)
