"""The unquantized mixture-of-experts method on out-of-tree devices."""

from __future__ import annotations

from typing import Any

import torch
import vllm.model_executor.layers.fused_moe.modular_kernel as mk
from vllm.model_executor.layers.fused_moe.config import FusedMoEConfig
from vllm.model_executor.layers.fused_moe.routed_experts import RoutedExperts
from vllm.model_executor.layers.fused_moe.unquantized_fused_moe_method import UnquantizedFusedMoEMethod

from vllm_fl.ops.fused_moe.experts import TorchExperts


class UnquantizedFusedMoEMethodFL(UnquantizedFusedMoEMethod):
    """vLLM's method with our experts as its kernel; vLLM has none for out-of-tree devices.

    Raises ValueError, before weights are read, for what the experts cannot do.
    """

    def __init__(self, moe: FusedMoEConfig) -> None:
        super().__init__(moe)
        self.experts_cls: type[TorchExperts] = TorchExperts
        supported, reason = TorchExperts.is_supported_config(
            TorchExperts, moe, None, None, mk.FusedMoEActivationFormat.Standard
        )
        if not supported:
            raise ValueError(
                f"The mixture-of-experts layer cannot run: {TorchExperts.__name__} {reason}. Leave out "
                "--enable-eplb, --enable-lora and --all2all-backend, or use a model with silu or gelu experts"
            )
        if moe.swiglu_limit is not None and moe.activation.value != "silu":
            raise ValueError(
                f"A SwiGLU limit is not supported with expert activation {moe.activation.value!r}"
            )

    @property
    def supports_eplb(self) -> bool:
        return False

    def create_weights(
        self,
        layer: RoutedExperts,
        num_experts: int,
        hidden_size: int,
        intermediate_size_per_partition: int,
        params_dtype: torch.dtype,
        **extra_weight_attrs: Any,
    ) -> None:
        if layer.apply_router_weight_on_input and layer.top_k != 1:
            raise ValueError(
                f"{layer.layer_name}: router weights on the input are defined for one expert per token, "
                f"not for {layer.top_k}"
            )
        super().create_weights(
            layer,
            num_experts,
            hidden_size,
            intermediate_size_per_partition,
            params_dtype,
            **extra_weight_attrs,
        )

    def process_weights_after_loading(self, layer: RoutedExperts) -> None:
        super().process_weights_after_loading(layer)
        # vLLM leaves the kernel of out-of-tree devices to the plugin.
        self._setup_kernel(layer=layer, w13=layer.w13_weight, w2=layer.w2_weight)
