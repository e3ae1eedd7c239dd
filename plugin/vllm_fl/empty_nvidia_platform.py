"""NVIDIA GPUs under empty-device vLLM: Triton, torch's compiler and CUDA graphs carry the model alone."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

import torch
from vllm.platforms.interface import DeviceCapability

from vllm_fl.compilation.dispatched import enable_custom_ops, prefer_norms
from vllm_fl.devices.cuda import CUDA_WITHOUT_EXTENSION
from vllm_fl.platform import PlatformFL

if TYPE_CHECKING:
    from vllm.config import VllmConfig
    from vllm.config.kernel import IrOpPriorityConfig


class EmptyNvidiaPlatformFL(PlatformFL, device=CUDA_WITHOUT_EXTENSION):
    """Graphs as on vLLM's own platform; the operators of its extension are compiled or dispatched."""

    @classmethod
    def get_device_capability(cls, device_id: int = 0) -> DeviceCapability:
        return DeviceCapability(*torch.cuda.get_device_capability(device_id))

    @classmethod
    def get_static_graph_wrapper_cls(cls) -> str:
        return "vllm.compilation.cuda_graph.CUDAGraphWrapper"

    @classmethod
    def get_pass_manager_cls(cls) -> str:
        return "vllm_fl.compilation.passes.PassManagerFL"

    @classmethod
    def manual_seed_all(cls, seed: int) -> None:
        torch.cuda.manual_seed_all(seed)

    @classmethod
    def get_default_ir_op_priority(cls, vllm_config: VllmConfig) -> IrOpPriorityConfig:
        from vllm.config.compilation import CompilationMode

        compilation = vllm_config.compilation_config
        if compilation.backend != "inductor" or compilation.mode == CompilationMode.NONE:
            return super().get_default_ir_op_priority(vllm_config)
        cls.import_ir_kernels()
        from vllm.config.kernel import IrOpPriorityConfig

        return prefer_norms(IrOpPriorityConfig.with_default(["native"]))

    @classmethod
    def check_and_update_config(cls, vllm_config: VllmConfig) -> None:
        enable_custom_ops(vllm_config)
        super().check_and_update_config(vllm_config)
        passes = vllm_config.compilation_config.pass_config
        for field in fields(passes):
            # vLLM imports these passes on its own platforms only: they fuse operators of its extension.
            if field.name.startswith(("fuse_", "enable_")):
                setattr(passes, field.name, False)
