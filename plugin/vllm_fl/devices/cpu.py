"""The reference device: a plain CPU, pure PyTorch. It is the oracle other devices are checked against."""

from __future__ import annotations

from vllm_fl.devices.base import Device, Memory


def _memory(index: int) -> Memory:
    import psutil

    memory = psutil.virtual_memory()
    return Memory(memory.available, memory.total)


CPU = Device(
    name="cpu",
    platform_class="vllm_fl.platform.CpuPlatformFL",
    worker_class="vllm_fl.worker.worker.WorkerFL",
    torch_type="cpu",
    dispatch_key="CPU",
    dist_backend="gloo",
    indexed=False,
    visibility_variable="VLLM_FL_VISIBLE_DEVICES",
    probe=lambda: True,
    autodetect=False,
    memory=_memory,
    attention="vllm_fl.attention.paged.ReferenceAttentionBackend",
    mla_attention="vllm_fl.attention.mla.ReferenceMLABackend",
    v2_runner=True,
    block_multiple=16,
    default_kv_cache_bytes=4 << 30,
    environment={
        "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
        # There is no second stream for the shared experts to run on.
        "VLLM_DISABLE_SHARED_EXPERTS_STREAM": "1",
    },
    patches=("vllm_fl.compat.accelerator.HOST_ACCELERATOR_API",),
    worker_patches=("vllm_fl.compat.mamba_copy.HOST_STATE_COPY",),
    v2_patches=(
        "vllm_fl.compat.host_streams.HOST_STREAMS",
        "vllm_fl.compat.host_buffers.HOST_BUFFERS",
    ),
)
