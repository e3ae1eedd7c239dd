"""Gated activations whose implementation the dispatch policy chooses."""

from __future__ import annotations

import torch
from vllm.model_executor.layers.activation import GeluAndMul, SiluAndMul

from vllm_fl.dispatch import bind
from vllm_fl.ops.opaque import is_traced

silu_and_mul = bind("silu_and_mul")
gelu_and_mul = bind("gelu_and_mul")


class SiluAndMulFL(SiluAndMul):
    def forward_oot(self, x: torch.Tensor) -> torch.Tensor:
        if is_traced(x):
            return torch.ops.vllm_fl.silu_and_mul(x)
        return silu_and_mul(self, x)

    forward_cuda = forward_oot


class GeluAndMulFL(GeluAndMul):
    def forward_oot(self, x: torch.Tensor) -> torch.Tensor:
        if is_traced(x):
            return torch.ops.vllm_fl.gelu_and_mul(x, self.approximate)
        return gelu_and_mul(self, x)

    forward_cuda = forward_oot
