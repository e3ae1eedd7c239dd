"""Rotary position embeddings whose implementation the dispatch policy chooses.

The scaled variants differ from the plain one in their tables only. Those that rotate otherwise (multimodal
positions, Deepseek's scaling) stay vLLM's, which run in torch.
"""

from __future__ import annotations

import torch
from vllm.model_executor.layers.rotary_embedding import (
    LinearScalingRotaryEmbedding,
    Llama3RotaryEmbedding,
    RotaryEmbedding,
    YaRNScalingRotaryEmbedding,
)

from vllm_fl.dispatch import bind
from vllm_fl.ops.opaque import is_traced

rotary_embedding = bind("rotary_embedding")


class _Dispatched(RotaryEmbedding):
    def forward_oot(
        self, positions: torch.Tensor, query: torch.Tensor, key: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Query and key (tokens, heads * head size) rotated: in place, unless a tracer is looking."""
        table = self._match_cos_sin_cache_dtype(query)
        cos, sin = table.chunk(2, dim=-1)
        positions = positions.flatten()
        q = self._by_head(query, positions)
        k = None if key is None else self._by_head(key, positions)
        interleaved = not self.is_neox_style
        if key is not None and is_traced(query):
            q, k = torch.ops.vllm_fl.rotary_embedding(q, k, cos, sin, positions, interleaved)
            return q.view(query.shape), k.view(key.shape)
        rotary_embedding(self, q, k, cos, sin, positions, interleaved, True)
        return query, key

    forward_cuda = forward_oot

    def _by_head(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        return x.view(positions.shape[0], -1 if x.numel() else 1, self.head_size)


class RotaryEmbeddingFL(_Dispatched):
    pass


class Llama3RotaryEmbeddingFL(_Dispatched, Llama3RotaryEmbedding):
    pass


class LinearScalingRotaryEmbeddingFL(_Dispatched, LinearScalingRotaryEmbedding):
    pass


class YaRNScalingRotaryEmbeddingFL(_Dispatched, YaRNScalingRotaryEmbedding):
    pass
