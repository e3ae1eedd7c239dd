"""The reference attention backend: paged key-value cache, plain torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import ClassVar

import torch
from vllm.config import VllmConfig
from vllm.utils.torch_utils import is_quantized_kv_cache
from vllm.v1.attention.backend import (
    AttentionBackend,
    AttentionImpl,
    AttentionLayer,
    AttentionMetadata,
    AttentionMetadataBuilder,
    AttentionType,
    CommonAttentionMetadata,
    MultipleOf,
)
from vllm.v1.kv_cache_interface import AttentionSpec, KVCacheSpec

from vllm_fl.attention.batching import Batch, batches, pieces
from vllm_fl.attention.formulas import attend, linear_bias

ENCODERS = (AttentionType.ENCODER, AttentionType.ENCODER_ONLY)


@dataclass
class PagedMetadata(AttentionMetadata):
    """One step's requests. Built once per step and cache group; layers share what they derive from it."""

    query_starts: list[int]
    """First row of each request, and last the number of rows."""
    lengths: list[int]
    """Tokens of each sequence, this step's included."""
    block_table: torch.Tensor
    """(requests, blocks) integers."""
    causal: bool
    _plans: dict[tuple[bool, int | None], tuple[Batch, ...]] = field(default_factory=dict)
    _slots: dict[tuple[int | None, int], list[torch.Tensor]] = field(default_factory=dict)

    def requests(self, first: int, end: int) -> PagedMetadata:
        """The step of requests ``first`` to ``end`` alone, their rows counted from zero."""
        starts = self.query_starts[first : end + 1]
        return PagedMetadata(
            [start - starts[0] for start in starts],
            self.lengths[first:end],
            self.block_table[first:end],
            self.causal,
        )

    def plan(self, window: int | None, *, encoder: bool = False) -> tuple[Batch, ...]:
        """The batches a layer with this window runs."""
        key = (encoder, window)
        if key not in self._plans:
            causal = self.causal and not encoder
            lengths = self.lengths
            if encoder:
                lengths = [end - start for start, end in pairwise(self.query_starts)]
            parts = pieces(self.query_starts, lengths, causal=causal, window=window)
            self._plans[key] = batches(parts, causal=causal, window=window, device=self.block_table.device)
        return self._plans[key]

    def slots(self, window: int | None, block_size: int) -> list[torch.Tensor]:
        """For each batch of ``plan(window)``, the cache slots of its keys, flattened, int64."""
        key = (window, block_size)
        if key not in self._slots:
            self._slots[key] = [
                cache_slots(self.block_table, batch, block_size) for batch in self.plan(window)
            ]
        return self._slots[key]


def cache_slots(block_table: torch.Tensor, batch: Batch, block_size: int) -> torch.Tensor:
    """Slots of the keys of a batch, flat, int64: position p is in block p // block_size of its request."""
    positions = batch.key_positions
    table = block_table.index_select(0, batch.requests)
    blocks = table.gather(1, positions // block_size).to(torch.int64)
    return (blocks * block_size + positions % block_size).flatten()


def read_cache(cache: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
    """Rows of ``cache`` (blocks, block size, ...) at ``slots`` (n,), as (n, ...)."""
    if cache.stride(0) == cache.shape[1] * cache.stride(1):
        return cache.flatten(0, 1).index_select(0, slots)
    # Pages of layers that share memory are padded to one size: there is no flat view of their slots.
    return cache[slots // cache.shape[1], slots % cache.shape[1]]


def write_cache(cache: torch.Tensor, slots: torch.Tensor, rows: torch.Tensor) -> None:
    """Store the first n ``rows`` (tokens, ...) at ``slots`` (n,) of ``cache``; negative ones are skipped."""
    rows = rows[: slots.shape[0]].to(cache.dtype)
    slots = slots.to(torch.int64)
    kept = slots >= 0
    if not kept.all():
        slots, rows = slots[kept], rows[kept]
    if cache.stride(0) == cache.shape[1] * cache.stride(1):
        cache.flatten(0, 1).index_copy_(0, slots, rows)
    else:
        cache[slots // cache.shape[1], slots % cache.shape[1]] = rows


def host_lengths(common: CommonAttentionMetadata) -> list[int]:
    """Sequence lengths of the step's requests.

    The bound vLLM keeps on the host is exact unless drafts of an asynchronous step await verification, and
    speculative decoding is refused on devices of this plugin.
    """
    known = common.seq_lens_cpu_upper_bound
    return (common.seq_lens if known is None else known)[: common.num_reqs].tolist()


class PagedMetadataBuilder(AttentionMetadataBuilder[PagedMetadata]):
    def __init__(
        self,
        kv_cache_spec: KVCacheSpec,
        layer_names: list[str],
        vllm_config: VllmConfig,
        device: torch.device,
    ) -> None:
        super().__init__(kv_cache_spec, layer_names, vllm_config, device)

    def build(
        self,
        common_prefix_len: int,
        common_attn_metadata: CommonAttentionMetadata,
        fast_build: bool = False,
    ) -> PagedMetadata:
        common = common_attn_metadata
        if isinstance(common.causal, torch.Tensor):
            raise NotImplementedError(
                "Attention that is causal for some requests of a step and not for others is not supported"
            )
        if common.rswa_prefix_lens is not None:
            raise NotImplementedError("Reference sliding-window attention is not supported")
        return PagedMetadata(
            query_starts=common.query_start_loc_cpu[: common.num_reqs + 1].tolist(),
            lengths=host_lengths(common),
            block_table=common.block_table_tensor,
            causal=common.causal,
        )


class PagedImpl(AttentionImpl[PagedMetadata]):
    """One layer's attention.

    Raises ValueError for a quantized cache. Logits soft cap, alibi, attention sinks and sliding windows
    follow :mod:`vllm_fl.attention.formulas`.
    """

    supports_dcp = False

    def __init__(
        self,
        num_heads: int,
        head_size: int,
        scale: float,
        num_kv_heads: int | None = None,
        alibi_slopes: list[float] | None = None,
        sliding_window: int | None = None,
        kv_cache_dtype: str = "auto",
        logits_soft_cap: float | None = None,
        attn_type: str = AttentionType.DECODER,
        kv_sharing_target_layer_name: str | None = None,
        sinks: torch.Tensor | None = None,
    ) -> None:
        if is_quantized_kv_cache(kv_cache_dtype):
            raise ValueError(
                f"--kv-cache-dtype {kv_cache_dtype} is not supported by the reference attention: it keeps "
                "keys and values unquantized. Use --kv-cache-dtype auto"
            )
        self.num_heads = num_heads
        self.head_size = head_size
        self.scale = float(scale)
        self.num_kv_heads = num_kv_heads or num_heads
        self.alibi_slopes = None if alibi_slopes is None else torch.tensor(alibi_slopes, dtype=torch.float32)
        self.sliding_window = sliding_window
        self.kv_cache_dtype = kv_cache_dtype
        self.logits_soft_cap = logits_soft_cap or None
        self.attn_type = attn_type
        self.kv_sharing_target_layer_name = kv_sharing_target_layer_name
        self.sinks = sinks

    def do_kv_cache_update(
        self,
        layer: AttentionLayer,
        key: torch.Tensor,
        value: torch.Tensor,
        kv_cache: torch.Tensor,
        slot_mapping: torch.Tensor,
    ) -> None:
        """Store keys and values (tokens, kv_heads, head_size) at ``slot_mapping`` (tokens,)."""
        if self.attn_type in ENCODERS or not kv_cache.numel():
            return
        write_cache(kv_cache, slot_mapping, torch.cat([key, value], -1))

    def forward(
        self,
        layer: AttentionLayer,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        kv_cache: torch.Tensor,
        attn_metadata: PagedMetadata | None,
        output: torch.Tensor,
        output_scale: torch.Tensor | None = None,
        output_block_scale: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Fill ``output`` (tokens, heads, head_size) and return it.

        ``query`` has the shape of ``output``; keys and values are read from ``kv_cache``, except by
        encoders, which read ``key`` and ``value``. Without metadata (a profile run) the output is zero.
        """
        if output_scale is not None or output_block_scale is not None:
            raise NotImplementedError("The reference attention does not quantize its output")
        if attn_metadata is None:
            return output.zero_()
        encoder = self.attn_type in ENCODERS
        plan = attn_metadata.plan(self.sliding_window, encoder=encoder)
        slots = None if encoder else attn_metadata.slots(self.sliding_window, kv_cache.shape[1])
        for index, batch in enumerate(plan):
            if slots is None:
                first = batch.rows.view(batch.size, -1)[:, :1] - batch.query_positions[:, :1]
                rows = (first + batch.key_positions).flatten()
                keys, values = key.index_select(0, rows), value.index_select(0, rows)
            else:
                keys, values = read_cache(kv_cache, slots[index]).to(query.dtype).chunk(2, -1)
            attended = attend(
                query.index_select(0, batch.rows).unflatten(0, (batch.size, -1)),
                keys.unflatten(0, (batch.size, -1)),
                values.unflatten(0, (batch.size, -1)),
                self.scale,
                mask=self._mask(batch, query.dtype),
                square_causal=batch.square_causal and self.alibi_slopes is None,
                soft_cap=self.logits_soft_cap,
                sinks=self.sinks,
            )
            output.index_copy_(0, batch.rows, attended.flatten(0, 1).to(output.dtype))
        # Rows that only pad the step must not hold what happened to be in memory.
        output[attn_metadata.query_starts[-1] :].zero_()
        return output

    def _mask(self, batch: Batch, dtype: torch.dtype) -> torch.Tensor | None:
        if self.alibi_slopes is None:
            return batch.mask
        bias = linear_bias(
            self.alibi_slopes.to(batch.rows.device), batch.query_positions, batch.key_positions
        )
        if batch.square_causal:
            mask = batch.query_positions[:, None, :, None] >= batch.key_positions[:, None, None, :]
        elif batch.mask is None:
            return bias.to(dtype)
        else:
            mask = batch.mask
        return bias.masked_fill(~mask, float("-inf")).to(dtype)


class ReferenceAttentionBackend(AttentionBackend):
    """Attention over a paged cache of shape (blocks, block size, kv_heads, 2 * head_size).

    A row of the cache holds a key followed by its value. Blocks come first because vLLM pads or interleaves
    the pages of layers that share memory only in that layout.
    """

    forward_includes_kv_cache_update = False
    supported_dtypes: ClassVar[list[torch.dtype]] = [torch.float32, torch.bfloat16, torch.float16]

    @staticmethod
    def get_supported_kernel_block_sizes() -> list[int | MultipleOf]:
        return [MultipleOf(16)]

    @staticmethod
    def get_name() -> str:
        return "CUSTOM"

    @staticmethod
    def get_impl_cls() -> type[PagedImpl]:
        return PagedImpl

    @staticmethod
    def get_builder_cls() -> type[PagedMetadataBuilder]:
        return PagedMetadataBuilder

    @staticmethod
    def get_kv_cache_shape(
        num_blocks: int,
        block_size: int,
        num_kv_heads: int,
        head_size: int,
        cache_dtype_str: str = "auto",
    ) -> tuple[int, ...]:
        return num_blocks, block_size, num_kv_heads, 2 * head_size

    @staticmethod
    def get_kv_cache_stride_order(include_num_layers_dimension: bool = False) -> tuple[int, ...]:
        return (1, 0, 2, 3, 4) if include_num_layers_dimension else (0, 1, 2, 3)

    @classmethod
    def customize_spec(cls, spec: AttentionSpec) -> AttentionSpec:
        value_size = getattr(spec, "head_size_v", spec.head_size)
        if value_size != spec.head_size:
            raise ValueError(
                f"Attention with values of size {value_size} beside keys of size {spec.head_size} is not "
                "supported by the reference attention, whose cache holds both in one shape"
            )
        return spec

    @classmethod
    def supports_attn_type(cls, attn_type: str) -> bool:
        return attn_type in (AttentionType.DECODER, *ENCODERS)

    @classmethod
    def supports_sliding_window(cls) -> bool:
        return True

    @classmethod
    def supports_sink(cls) -> bool:
        return True

    @classmethod
    def supports_non_causal(cls) -> bool:
        return True
