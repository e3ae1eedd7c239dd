"""NVIDIA: vLLM's CUDA platform with this plugin's worker and the operators that the policy asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from vllm.platforms.cuda import CudaPlatform

from vllm_fl.devices.base import Device
from vllm_fl.devices.cuda import CUDA

if TYPE_CHECKING:
    from vllm.config import VllmConfig
    from vllm.config.kernel import IrOpPriorityConfig


class NvidiaPlatformFL(CudaPlatform):
    """Graphs, attention and collectives stay vLLM's, and so do operators that FlagGems does not run."""

    fl_device: ClassVar[Device] = CUDA

    @classmethod
    def check_and_update_config(cls, vllm_config: VllmConfig) -> None:
        from vllm_fl.compilation.dispatched import enable_custom_ops

        if vllm_config.parallel_config.worker_cls == "auto":
            vllm_config.parallel_config.worker_cls = cls.fl_device.worker_class
        enable_custom_ops(vllm_config)
        super().check_and_update_config(vllm_config)

    @classmethod
    def import_ir_kernels(cls) -> None:
        super().import_ir_kernels()
        import vllm_fl.ops.ir_kernels  # noqa: F401

    @classmethod
    def get_default_ir_op_priority(cls, vllm_config: VllmConfig) -> IrOpPriorityConfig:
        from vllm_fl.compilation.dispatched import prefer_norms

        cls.import_ir_kernels()
        return prefer_norms(super().get_default_ir_op_priority(vllm_config))
