"""Graph policy: devices without graphs run eagerly, and say so instead of quietly dropping what was asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vllm.config import VllmConfig

    from vllm_fl.devices.base import Device


def check_graph_policy(config: VllmConfig, device: Device) -> None:
    """Raise ValueError when a graph is asked for, or not declined, on a device that has none."""
    model = config.model_config
    if device.graphs or model is None or model.enforce_eager:
        return
    raise ValueError(
        f"Device {device.name!r} has neither compiled nor captured graphs, and what -O, --compilation-config "
        "or the defaults ask for must not quietly turn into eager execution. Add --enforce-eager"
    )


def apply_graph_policy(config: VllmConfig, device: Device) -> None:
    """Switch every graph mode off on a device without graphs."""
    if device.graphs:
        return
    from vllm.config import CompilationMode, CUDAGraphMode

    compilation = config.compilation_config
    compilation.mode = CompilationMode.NONE
    compilation.cudagraph_mode = CUDAGraphMode.NONE
    compilation.cudagraph_capture_sizes = []
    compilation.compile_sizes = []
