"""Sampling without Triton."""

from __future__ import annotations

import torch
from vllm.v1.sample.ops.topk_topp_sampler import TopKTopPSampler, apply_top_k_top_p_pytorch


class TorchTopKTopPSampler(TopKTopPSampler):
    """Top-k and top-p by sorting. vLLM's own takes a Triton kernel from a batch of eight on."""

    def forward_native(
        self,
        logits: torch.Tensor,
        generators: dict[int, torch.Generator],
        k: torch.Tensor | None,
        p: torch.Tensor | None,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        filtered = apply_top_k_top_p_pytorch(logits, k, p, allow_cpu_sync=logits.device.type == "cpu")
        return super().forward_native(filtered, generators, None, None)
