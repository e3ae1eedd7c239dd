"""Ascend 910C through torch_npu: eager only, first model runner only."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from vllm_fl.devices.base import Device, Memory


def _present() -> bool:
    return find_spec("torch_npu") is not None and any(Path("/dev").glob("davinci[0-9]*"))


def _memory(index: int) -> Memory:
    import torch
    import torch_npu  # noqa: F401

    return Memory(*torch.npu.mem_get_info(index))


ASCEND = Device(
    name="ascend",
    platform_class="vllm_fl.platform.AscendPlatformFL",
    worker_class="vllm_fl.worker.worker.WorkerFL",
    torch_type="npu",
    dispatch_key="PrivateUse1",
    dist_backend="hccl",
    indexed=True,
    visibility_variable="ASCEND_RT_VISIBLE_DEVICES",
    probe=_present,
    memory=_memory,
    attention="vllm_fl.dispatch.backends.vendor.ascend.impl.attention.AscendAttentionBackend",
    pin_memory=True,
    block_multiple=128,
    profile_limit_tokens=4096,
    environment={
        "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
        # FlagTree provides Triton, and with Triton vLLM picks the second runner by itself.
        "VLLM_USE_V2_MODEL_RUNNER": "0",
        "VLLM_DISABLE_SHARED_EXPERTS_STREAM": "1",
    },
)
