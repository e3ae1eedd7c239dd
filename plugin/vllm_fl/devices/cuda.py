"""NVIDIA GPUs: vLLM's own platform, graphs and collectives; only operators are dispatched."""

from __future__ import annotations

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
