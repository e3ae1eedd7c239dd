"""Pinned host memory as the GPU sees it, without vLLM's extension.

``vllm.utils.torch_utils.get_accelerator_view_from_cpu_tensor`` knows vLLM's own platforms only. The second
runner keeps the state of requests in such views.
"""

from __future__ import annotations

import torch

from vllm_fl.compat import Patch


def view_of_pinned(cpu_tensor: torch.Tensor) -> torch.Tensor:
    """A CUDA tensor over the pinned memory of ``cpu_tensor``, which must outlive it.

    Raises ValueError for memory that is not pinned: the GPU has no address for it.
    """
    from vllm_fl.ops.borrowed import borrow

    if not cpu_tensor.is_pinned():
        raise ValueError("only pinned memory can be seen by the GPU; call pin_memory() first")
    return borrow(cpu_tensor, torch.device("cuda", torch.cuda.current_device()))


def _needed() -> bool:
    from vllm.platforms import current_platform

    return not current_platform.is_cuda_alike()


def _apply() -> None:
    import vllm.utils.torch_utils as torch_utils
    import vllm.v1.worker.gpu.buffer_utils as buffer_utils

    torch_utils.get_accelerator_view_from_cpu_tensor = view_of_pinned
    buffer_utils.get_accelerator_view_from_cpu_tensor = view_of_pinned


PINNED_VIEWS = Patch("vllm.utils.torch_utils.get_accelerator_view_from_cpu_tensor", "0.28", _needed, _apply)
