"""NVIDIA GPUs: vLLM's own platform, graphs and collectives; only operators are dispatched.

Where vLLM was built for the empty device, its CUDA platform cannot even be imported. Then the platform is the
plugin's own, with vLLM's Triton attention, torch's collectives, and compiled or dispatched operators.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from vllm_fl.devices.base import Device, Memory


def _present() -> bool:
    return any(Path("/dev").glob("nvidia[0-9]*"))


def _memory(index: int) -> Memory:
    import torch

    return Memory(*torch.cuda.mem_get_info(index))


CUDA = Device(
    name="nvidia",
    aliases=("cuda",),
    platform_class="vllm_fl.nvidia_platform.NvidiaPlatformFL",
    worker_class="vllm_fl.worker.worker.NvidiaWorkerFL",
    torch_type="cuda",
    dispatch_key="CUDA",
    dist_backend="nccl",
    indexed=True,
    visibility_variable="CUDA_VISIBLE_DEVICES",
    probe=_present,
    memory=_memory,
    communicator="vllm.distributed.device_communicators.cuda_communicator.CudaCommunicator",
    simple_compile_backend="inductor",
    graphs=True,
    async_scheduling=True,
    pin_memory=True,
    v2_runner=True,
    refusals="",
    environment={"VLLM_WORKER_MULTIPROC_METHOD": "spawn"},
)

CUDA_WITHOUT_EXTENSION = replace(
    CUDA,
    platform_class="vllm_fl.empty_nvidia_platform.EmptyNvidiaPlatformFL",
    communicator="vllm_fl.distributed.communicator.CommunicatorFL",
    attention="vllm.v1.attention.backends.triton_attn.TritonAttentionBackend",
    mla_attention="vllm.v1.attention.backends.mla.triton_mla.TritonMLABackend",
    refusals="vllm_fl.devices.refusals.WITHOUT_EXTENSION",
    worker_patches=("vllm_fl.compat.pinned_views.PINNED_VIEWS",),
)


def has_extension() -> bool:
    """Whether vLLM's compiled CUDA operators are installed."""
    name = "vllm._C_stable_libtorch"
    try:
        return name in sys.modules or find_spec(name) is not None
    except ModuleNotFoundError:
        return False  # there is no vLLM at all
