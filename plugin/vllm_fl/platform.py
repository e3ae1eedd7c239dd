"""Out-of-tree platforms: a thin translation of a Device descriptor into vLLM's Platform."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from vllm.logger import init_logger
from vllm.platforms.interface import Platform, PlatformEnum
from vllm.utils.import_utils import resolve_obj_by_qualname

from vllm_fl import envs
from vllm_fl.devices.ascend import ASCEND
from vllm_fl.devices.base import Device
from vllm_fl.devices.cpu import CPU

if TYPE_CHECKING:
    from vllm.config import VllmConfig
    from vllm.config.kernel import IrOpPriorityConfig
    from vllm.v1.attention.backends.registry import AttentionBackendEnum
    from vllm.v1.attention.selector import AttentionSelectorConfig

logger = init_logger(__name__)


class PlatformFL(Platform):
    """Base of the out-of-tree platforms; ``class X(PlatformFL, device=DESCRIPTOR)`` is a whole platform."""

    _enum = PlatformEnum.OOT
    fl_device: ClassVar[Device]

    def __init_subclass__(cls, device: Device, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.fl_device = device
        # vLLM builds torch.device(f"{device_name}:{index}") for out-of-tree platforms.
        cls.device_name = cls.device_type = device.torch_type
        cls.dispatch_key = device.dispatch_key
        cls.dist_backend = device.dist_backend
        cls.device_control_env_var = envs.read().device_control_env_var or device.visibility_variable
        cls.simple_compile_backend = device.simple_compile_backend
        cls.supported_quantization = list(device.quantizations)

    def __init__(self) -> None:
        # vLLM creates the platform in every process, also those that never see a worker.
        from vllm_fl.compat import apply_patches

        apply_patches(self.fl_device.patches)

    @classmethod
    def get_device_name(cls, device_id: int = 0) -> str:
        return cls.fl_device.name

    @classmethod
    def get_device_total_memory(cls, device_id: int = 0) -> int:
        return cls.fl_device.memory(device_id).total

    @classmethod
    def get_current_memory_usage(cls, device: torch.types.Device | None = None) -> float:
        memory = cls.fl_device.memory(torch.device(device or cls.device_type).index or 0)
        return float(memory.total - memory.free)

    @classmethod
    def set_device(cls, device: torch.device) -> None:
        if torch.accelerator.is_available():
            torch.accelerator.set_device_index(device)

    @classmethod
    def manual_seed_all(cls, seed: int) -> None:
        torch.manual_seed(seed)

    @classmethod
    def check_if_supports_dtype(cls, dtype: torch.dtype) -> None:
        if not dtype.is_floating_point or dtype.itemsize < 2:
            raise ValueError(f"--dtype {dtype} is not supported on device {cls.fl_device.name!r}")

    @classmethod
    def is_pin_memory_available(cls) -> bool:
        return cls.fl_device.pin_memory

    @classmethod
    def num_compute_units(cls, device_id: int = 0) -> int:
        properties = getattr(getattr(torch, cls.device_type), "get_device_properties", None)
        if properties is None:
            return os.cpu_count() or 1
        return int(getattr(properties(device_id), "multi_processor_count", 1))

    @classmethod
    def import_kernels(cls) -> None:
        """Nothing to load: ``register_model`` defines the C operators vLLM reaches for."""

    @classmethod
    def import_ir_kernels(cls) -> None:
        import vllm_fl.ops.ir_kernels  # noqa: F401

    @classmethod
    def get_default_ir_op_priority(cls, vllm_config: VllmConfig) -> IrOpPriorityConfig:
        from dataclasses import fields

        from vllm.config.kernel import IrOpPriorityConfig
        from vllm.ir.op import IrOp

        cls.import_ir_kernels()
        names = [field.name for field in fields(IrOpPriorityConfig)]
        return IrOpPriorityConfig(
            **{n: [p for p in cls.fl_device.ir_priority if p in IrOp.registry[n].impls] for n in names}
        )

    @classmethod
    def check_and_update_config(cls, vllm_config: VllmConfig) -> None:
        from vllm_fl.devices.config import check_config, fit_config

        check_config(vllm_config, cls.fl_device)
        fit_config(vllm_config, cls.fl_device)

    @classmethod
    def get_attn_backend_cls(
        cls,
        selected_backend: AttentionBackendEnum | None,
        attn_selector_config: AttentionSelectorConfig,
        num_heads: int | None = None,
    ) -> str:
        device = cls.fl_device
        name = device.mla_attention if attn_selector_config.use_mla else device.attention
        if not name:
            raise ValueError(
                f"Multi-head latent attention has no backend on device {device.name!r}; "
                "set VLLM_MLA_DISABLE=1 to run the model with plain attention"
            )
        reasons = resolve_obj_by_qualname(name).validate_configuration(
            device_capability=cls.get_device_capability(), **attn_selector_config._asdict()
        )
        if reasons:
            raise ValueError(
                f"The attention this model needs is not supported on device {device.name!r}: "
                f"{'; '.join(reasons)} ({attn_selector_config!r})"
            )
        return name

    @classmethod
    def get_device_communicator_cls(cls) -> str:
        return cls.fl_device.communicator

    @classmethod
    def support_hybrid_kv_cache(cls) -> bool:
        return True

    @classmethod
    def support_static_graph_mode(cls) -> bool:
        return cls.fl_device.graphs

    @classmethod
    def check_runner_kv_caches_multi_layer(cls) -> None:
        """Several attention layers may share an index: the runner keys its caches by layer name."""

    @classmethod
    def opaque_attention_op(cls) -> bool:
        return True


class CpuPlatformFL(PlatformFL, device=CPU):
    """The reference device."""


class AscendPlatformFL(PlatformFL, device=ASCEND):
    """Ascend 910C."""
