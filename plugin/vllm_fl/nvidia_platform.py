"""NVIDIA: vLLM's CUDA platform with this plugin's worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from vllm.platforms.cuda import CudaPlatform

from vllm_fl.devices.base import Device
from vllm_fl.devices.cuda import CUDA

if TYPE_CHECKING:
    from vllm.config import VllmConfig


class NvidiaPlatformFL(CudaPlatform):
    """Everything but the worker class is vLLM's, so graphs, attention and collectives stay as they are."""

    fl_device: ClassVar[Device] = CUDA

    @classmethod
    def check_and_update_config(cls, vllm_config: VllmConfig) -> None:
        if vllm_config.parallel_config.worker_cls == "auto":
            vllm_config.parallel_config.worker_cls = cls.fl_device.worker_class
        super().check_and_update_config(vllm_config)
