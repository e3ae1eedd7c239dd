"""The gated delta network layer of Qwen3-Next and Qwen3.5, its convolution and recurrence in plain torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import torch
from vllm.forward_context import get_forward_context
from vllm.model_executor.layers.mamba.gdn.qwen_gdn_linear_attn import QwenGatedDeltaNetAttention
from vllm.model_executor.layers.mamba.mamba_utils import is_conv_state_dim_first
from vllm.v1.attention.backend import CommonAttentionMetadata
from vllm.v1.attention.backends.gdn_attn import (
    GDNAttentionBackend,
    GDNAttentionMetadata,
    GDNAttentionMetadataBuilder,
)

from vllm_fl.ops.causal_conv1d import NULL_SLOT, causal_conv1d_fn, causal_conv1d_update
from vllm_fl.ops.gated_delta import ChunkPlan, chunked, plan_chunks, prepare, step


@dataclass
class PlannedGDNMetadata(GDNAttentionMetadata):
    """vLLM's metadata, and what all layers of the step need beside it."""

    continued: torch.Tensor = field(kw_only=True)
    """(requests,) bool: earlier tokens of the request are in its state. vLLM tells for prompts only, but a
    prompt of one token runs as a decode."""
    chunks: ChunkPlan | None = field(kw_only=True)
    """How the prompts of the step are cut."""


class PlannedGDNMetadataBuilder(GDNAttentionMetadataBuilder):
    def build(
        self,
        common_prefix_len: int,
        common_attn_metadata: CommonAttentionMetadata,
        *args: Any,
        **kwargs: Any,
    ) -> PlannedGDNMetadata:
        made = super().build(common_prefix_len, common_attn_metadata, *args, **kwargs)
        if made.spec_sequence_masks is not None:
            raise NotImplementedError(
                "The gated delta network knows no speculative decoding. Leave --speculative-config out"
            )
        chunks = None
        if made.num_prefills:
            starts = common_attn_metadata.query_start_loc_cpu[made.num_decodes :].tolist()
            device = common_attn_metadata.query_start_loc.device
            chunks = plan_chunks([end - start for start, end in pairwise(starts)], device)
        continued = common_attn_metadata.compute_num_computed_tokens() > 0
        return PlannedGDNMetadata(**vars(made), continued=continued, chunks=chunks)


class PlannedGDNBackend(GDNAttentionBackend):
    @staticmethod
    def get_builder_cls() -> type[PlannedGDNMetadataBuilder]:
        return PlannedGDNMetadataBuilder


class QwenGatedDeltaNetAttentionFL(QwenGatedDeltaNetAttention):
    """vLLM's layer: projections, norm and cache are its own, convolution and recurrence are ours."""

    def get_attn_backend(self) -> type[PlannedGDNBackend]:
        return PlannedGDNBackend

    def _forward_core(
        self, mixed_qkv: torch.Tensor, b: torch.Tensor, a: torch.Tensor, core_attn_out: torch.Tensor
    ) -> None:
        """Fill ``core_attn_out`` (tokens, heads, values) from projections (tokens, ...).

        Rows that pad the step, and a profile run, leave it as the caller made it: zero.
        """
        steps = get_forward_context().attn_metadata
        if steps is None:
            return
        metadata = steps[self.prefix]
        rows = slice(0, metadata.num_actual_tokens)
        mixed = self._convolve(mixed_qkv[rows], metadata)
        inputs = prepare(
            mixed,
            a[rows],
            b[rows],
            self.A_log,
            self.dt_bias,
            self.num_k_heads // self.tp_size,
            self.head_k_dim,
            self.head_v_dim,
        )
        states = self.kv_cache[1]
        slots = metadata.non_spec_state_indices_tensor.to(torch.int64)
        decodes = metadata.num_decodes
        tokens = metadata.num_decode_tokens
        if decodes:
            mine = slots[:decodes]
            before = _read(states, mine, metadata.continued[:decodes])
            out, after = step(inputs.part(slice(0, decodes)), before)
            _write(states, mine, after)
            core_attn_out[:decodes] = out.masked_fill((mine <= NULL_SLOT)[:, None, None], 0.0)
        if metadata.num_prefills:
            mine = slots[decodes:]
            before = _read(states, mine, metadata.continued[decodes:])
            out, after = chunked(inputs.part(slice(tokens, None)), before, metadata.chunks)
            _write(states, mine, after)
            core_attn_out[tokens : metadata.num_actual_tokens] = out

    def _convolve(self, mixed: torch.Tensor, metadata: PlannedGDNMetadata) -> torch.Tensor:
        states = self.kv_cache[0] if is_conv_state_dim_first() else self.kv_cache[0].transpose(-1, -2)
        weight = self.conv1d.weight.flatten(1)
        slots = metadata.non_spec_state_indices_tensor
        if not metadata.num_prefills:
            return causal_conv1d_update(
                mixed, states, weight, self.conv1d.bias, slots, metadata.continued, self.activation
            )
        return causal_conv1d_fn(
            mixed,
            weight,
            self.conv1d.bias,
            states,
            metadata.non_spec_query_start_loc,
            slots,
            metadata.continued,
            self.activation,
        )


def _read(states: torch.Tensor, slots: torch.Tensor, valid: torch.Tensor) -> torch.Tensor:
    """States (sequences, heads, values, keys) in fp32; zero where nothing valid is stored."""
    found = states.index_select(0, slots.clamp(min=NULL_SLOT)).float()
    return found.masked_fill(~valid[:, None, None, None], 0.0)


def _write(states: torch.Tensor, slots: torch.Tensor, values: torch.Tensor) -> None:
    kept = slots > NULL_SLOT
    states.index_copy_(0, slots[kept], values[kept].to(states.dtype))
