"""INT8 experts on an NVIDIA GPU: vLLM's fused kernel, with tiles measured for INT8."""

from __future__ import annotations

import torch

from vllm_fl.quantization.w8a8.tiles import tile


def fused_experts_int8(
    x: torch.Tensor,
    w1: torch.Tensor,
    w2: torch.Tensor,
    w1_scale: torch.Tensor,
    w2_scale: torch.Tensor,
    topk_weights: torch.Tensor,
    topk_ids: torch.Tensor,
    expert_map: torch.Tensor | None = None,
    global_num_experts: int = -1,
) -> torch.Tensor:
    """Sum over each token's experts of ``down(silu(gate) * up)``, activations quantized per token.

    x [M, K] bfloat16 or float16; w1 [E, 2I, K] and w2 [E, K, I] int8, gate before up; w1_scale [E, 2I, 1] and
    w2_scale [E, K, 1] float32, per output channel; topk_weights [M, k] float32, topk_ids [M, k] int32, global
    where ``expert_map`` [global_num_experts] int32 gives the local index, or -1. Returns [M, K] in x's dtype.
    """
    from vllm.model_executor.layers.fused_moe import override_config
    from vllm.model_executor.layers.fused_moe.config import int8_w8a8_moe_quant_config
    from vllm.model_executor.layers.fused_moe.fused_moe import fused_experts

    quantization = int8_w8a8_moe_quant_config(w1_scale, w2_scale, None, None, per_act_token_quant=True)
    experts, hidden, intermediate = w2.shape
    chosen = tile(torch.cuda.get_device_name(x.device), experts, hidden, intermediate, x.shape[0])
    with override_config(chosen):
        return fused_experts(
            x,
            w1,
            w2,
            topk_weights,
            topk_ids,
            expert_map=expert_map,
            global_num_experts=global_num_experts,
            quant_config=quantization,
        )
