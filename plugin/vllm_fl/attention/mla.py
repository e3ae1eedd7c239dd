"""Multi-head latent attention for the reference device.

The cache holds one row per token, shared by all heads: a compressed vector, from which each head's keys and
values are projected, and a rotated key part. Decodes attend in the compressed space (vLLM projects the
queries into it before and the outputs out of it after); prompts project keys and values first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from vllm.config import VllmConfig
from vllm.model_executor.layers.attention.mla_attention import MLACommonBackend, MLACommonImpl
from vllm.utils.torch_utils import is_quantized_kv_cache
from vllm.v1.attention.backend import (
    AttentionLayer,
    AttentionMetadata,
    AttentionMetadataBuilder,
    CommonAttentionMetadata,
    MultipleOf,
)
from vllm.v1.attention.backends.mla.prefill.base import MLAPrefillBackend
from vllm.v1.attention.backends.mla.prefill.selector import MLAPrefillSelectorConfig
from vllm.v1.kv_cache_interface import KVCacheSpec

from vllm_fl.attention.formulas import attend
from vllm_fl.attention.paged import (
    PagedMetadata,
    PagedMetadataBuilder,
    ReferenceAttentionBackend,
    read_cache,
    write_cache,
)


@dataclass
class LatentMetadata(AttentionMetadata):
    """One step: the decodes that lead it, and the rest. The counts are what vLLM's layer splits rows by."""

    num_actual_tokens: int
    num_decodes: int
    num_decode_tokens: int
    num_prefills: int
    decode: PagedMetadata
    prefill: PagedMetadata


class LatentMetadataBuilder(AttentionMetadataBuilder[LatentMetadata]):
    # The runner moves decodes to the front. Where it does not, requests after a prompt run as prompts.
    reorder_batch_threshold: int | None = 1

    def __init__(
        self,
        kv_cache_spec: KVCacheSpec,
        layer_names: list[str],
        vllm_config: VllmConfig,
        device: torch.device,
    ) -> None:
        super().__init__(kv_cache_spec, layer_names, vllm_config, device)
        self._paged = PagedMetadataBuilder(kv_cache_spec, layer_names, vllm_config, device)

    def build(
        self,
        common_prefix_len: int,
        common_attn_metadata: CommonAttentionMetadata,
        fast_build: bool = False,
    ) -> LatentMetadata:
        whole = self._paged.build(common_prefix_len, common_attn_metadata, fast_build)
        if not whole.causal:
            raise NotImplementedError("Latent attention that is not causal is not supported")
        starts, count = whole.query_starts, len(whole.lengths)
        decodes = next((r for r in range(count) if starts[r + 1] - starts[r] > 1), count)
        return LatentMetadata(
            num_actual_tokens=common_attn_metadata.num_actual_tokens,
            num_decodes=decodes,
            num_decode_tokens=starts[decodes],
            num_prefills=count - decodes,
            decode=whole.requests(0, decodes),
            prefill=whole.requests(decodes, count),
        )


class LatentImpl(MLACommonImpl[Any]):
    """One layer's latent attention. Raises ValueError for a quantized cache."""

    supports_dcp = False
    supports_pcp = False

    def __init__(
        self, *args: Any, kv_cache_dtype: str, sliding_window: int | None = None, **kwargs: Any
    ) -> None:
        if is_quantized_kv_cache(kv_cache_dtype):
            raise ValueError(
                f"--kv-cache-dtype {kv_cache_dtype} is not supported by the reference latent attention. "
                "Use --kv-cache-dtype auto"
            )
        super().__init__(*args, kv_cache_dtype=kv_cache_dtype, sliding_window=sliding_window, **kwargs)
        self.supports_quant_query_input = False
        self.sliding_window = sliding_window

    def do_kv_cache_update(
        self,
        kv_c_normed: torch.Tensor,
        k_pe: torch.Tensor,
        kv_cache: torch.Tensor,
        slot_mapping: torch.Tensor,
        kv_cache_dtype: str,
        k_scale: torch.Tensor,
    ) -> None:
        """Store rows of ``kv_c_normed`` (tokens, latent) beside ``k_pe`` (tokens, 1, rotated)."""
        if kv_cache.numel():
            write_cache(kv_cache, slot_mapping.flatten(), torch.cat([kv_c_normed, k_pe.flatten(1)], -1))

    def forward_mqa(
        self,
        q: torch.Tensor | tuple[torch.Tensor, torch.Tensor],
        kv_c_and_k_pe_cache: torch.Tensor,
        attn_metadata: LatentMetadata,
        layer: AttentionLayer,
    ) -> tuple[torch.Tensor, None]:
        """Decodes: queries (tokens, heads, latent + rotated) in the space of the cache's rows.

        Returns (tokens, heads, latent), still to be projected by the caller.
        """
        query = torch.cat(q, -1) if isinstance(q, tuple) else q
        output = query.new_zeros(*query.shape[:2], self.kv_lora_rank)
        step = attn_metadata.decode
        slots = step.slots(self.sliding_window, kv_c_and_k_pe_cache.shape[1])
        for batch, batch_slots in zip(step.plan(self.sliding_window), slots, strict=True):
            rows = read_cache(kv_c_and_k_pe_cache, batch_slots).to(query.dtype)
            rows = rows.view(batch.size, -1, 1, rows.shape[-1])
            attended = attend(
                query.index_select(0, batch.rows).unflatten(0, (batch.size, -1)),
                rows,
                rows[..., : self.kv_lora_rank],
                self.scale,
                mask=batch.mask,
                square_causal=batch.square_causal,
            )
            output.index_copy_(0, batch.rows, attended.flatten(0, 1))
        return output, None

    def forward_mha(
        self,
        q: torch.Tensor,
        kv_c_normed: torch.Tensor,
        k_pe: torch.Tensor,
        kv_c_and_k_pe_cache: torch.Tensor,
        attn_metadata: LatentMetadata,
        k_scale: torch.Tensor,
        output: torch.Tensor,
        output_scale: torch.Tensor | None = None,
    ) -> None:
        """Prompts, with cached context: q (tokens, heads, plain + rotated) to output (tokens, heads * v)."""
        if output_scale is not None:
            raise NotImplementedError("The reference latent attention does not quantize its output")
        step = attn_metadata.prefill
        slots = step.slots(self.sliding_window, kv_c_and_k_pe_cache.shape[1])
        for batch, batch_slots in zip(step.plan(self.sliding_window), slots, strict=True):
            rows = read_cache(kv_c_and_k_pe_cache, batch_slots).to(q.dtype)
            latent, rotated = rows.split([self.kv_lora_rank, self.qk_rope_head_dim], -1)
            projected = self.kv_b_proj(latent)[0].view(rows.shape[0], self.num_heads, -1)
            plain, values = projected.split([self.qk_nope_head_dim, self.v_head_dim], -1)
            keys = torch.cat([plain, rotated[:, None].expand(-1, self.num_heads, -1)], -1)
            attended = attend(
                q.index_select(0, batch.rows).unflatten(0, (batch.size, -1)),
                keys.unflatten(0, (batch.size, -1)),
                values.unflatten(0, (batch.size, -1)),
                self.scale,
                mask=batch.mask,
                square_causal=batch.square_causal,
            )
            output.index_copy_(0, batch.rows, attended.flatten(2).flatten(0, 1).to(output.dtype))
        output[step.query_starts[-1] :].zero_()


class ReferenceMLABackend(MLACommonBackend):
    """Latent attention over a paged cache of shape (blocks, block size, latent + rotated)."""

    forward_includes_kv_cache_update = False
    supported_dtypes: ClassVar[list[torch.dtype]] = ReferenceAttentionBackend.supported_dtypes

    @staticmethod
    def get_supported_kernel_block_sizes() -> list[int | MultipleOf]:
        return ReferenceAttentionBackend.get_supported_kernel_block_sizes()

    @staticmethod
    def get_name() -> str:
        return "CUSTOM"

    @classmethod
    def get_supported_head_sizes(cls) -> list[int]:
        return []

    @staticmethod
    def get_impl_cls() -> type[LatentImpl]:
        return LatentImpl

    @staticmethod
    def get_builder_cls() -> type[LatentMetadataBuilder]:
        return LatentMetadataBuilder


class InlinePrefill(MLAPrefillBackend):
    """Stands for ``LatentImpl.forward_mha``, which needs none of vLLM's prompt kernels.

    vLLM's layer insists on a prompt backend, and on a device without a capability it takes its
    FlashAttention, which is not there; so this one is registered in that place.
    """

    supported_dtypes: ClassVar[list[torch.dtype]] = ReferenceAttentionBackend.supported_dtypes

    @staticmethod
    def get_name() -> str:
        return "CUSTOM"

    @classmethod
    def validate_configuration(
        cls, device_capability: Any, selector_config: MLAPrefillSelectorConfig
    ) -> list[str]:
        dtype = selector_config.dtype
        return [] if cls.supports_dtype(dtype) else [f"dtype {dtype} not supported"]

    def run_prefill_new_tokens(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        raise NotImplementedError(f"{LatentImpl.__name__} attends to prompts itself")

    def run_prefill_context_chunk(self, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, torch.Tensor]:
        raise NotImplementedError(f"{LatentImpl.__name__} attends to cached context itself")
