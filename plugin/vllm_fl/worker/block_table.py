"""Slot mapping in torch, where vLLM uses a Triton kernel."""

from __future__ import annotations

import torch
from vllm.v1.attention.backends.utils import PAD_SLOT_ID
from vllm.v1.worker.block_table import BlockTable, MultiGroupBlockTable, SlotMappingMode


def slot_mapping(
    block_table: torch.Tensor,
    query_start_loc: torch.Tensor,
    positions: torch.Tensor,
    manager_block: int,
    kernel_block: int,
) -> torch.Tensor:
    """Cache slot of every scheduled token.

    Args:
        block_table: (requests, kernel blocks) integers, the kernel blocks of each request in order.
        query_start_loc: (requests + 1,) integers, first token of each request in ``positions``.
        positions: (tokens,) int64, position of each token in its sequence.
        manager_block: tokens per block of the cache manager.
        kernel_block: tokens per block of the attention kernel; divides ``manager_block``.

    Returns (tokens,) int64. A token at position p of request r has the slot
    ``block_table[r, p // kernel_block] * kernel_block + p % kernel_block``; tokens past the last request
    get PAD_SLOT_ID.
    """
    if manager_block % kernel_block:
        raise ValueError(f"kernel block {kernel_block} does not divide manager block {manager_block}")
    starts = query_start_loc.to(torch.int64)
    tokens = torch.arange(positions.shape[0], device=positions.device)
    requests = (torch.searchsorted(starts, tokens, right=True) - 1).clamp_(0, starts.shape[0] - 2)
    blocks = block_table[requests, positions // kernel_block].to(torch.int64)
    slots = blocks * kernel_block + positions % kernel_block
    return slots.masked_fill_(tokens >= starts[-1], PAD_SLOT_ID)


class TorchMultiGroupBlockTable(MultiGroupBlockTable):
    """vLLM's block tables, with the slot mapping computed by :func:`slot_mapping`."""

    def __init__(self, block_tables: list[BlockTable]) -> None:
        if any(table.dcp_world_size > 1 for table in block_tables):
            raise ValueError(
                "The slot mapping knows no context parallelism; leave --decode-context-parallel-size out"
            )
        self.block_tables = block_tables

    def compute_slot_mapping(
        self, num_reqs: int, query_start_loc: torch.Tensor, positions: torch.Tensor
    ) -> None:
        count = positions.shape[0]
        for table in self.block_tables:
            if table.slot_mapping_mode == SlotMappingMode.NONE:
                continue
            slots = table.slot_mapping.gpu
            slots[count:].fill_(PAD_SLOT_ID)
            slots[:count] = slot_mapping(
                table.block_table.gpu,
                query_start_loc[: num_reqs + 1],
                positions,
                table.kv_cache_block_size,
                table.block_size,
            )
