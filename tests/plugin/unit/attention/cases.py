"""Random steps of a paged cache, and the dense formula they are compared with."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from vllm.v1.attention.backend import CommonAttentionMetadata


@dataclass
class Step:
    """What the runner knows of one step; ``cached`` and ``new`` are lengths per request."""

    cached: list[int]
    new: list[int]
    block_size: int
    blocks: int
    table: torch.Tensor

    @property
    def lengths(self) -> list[int]:
        return [cached + new for cached, new in zip(self.cached, self.new, strict=True)]

    def slots(self, request: int, start: int, end: int) -> torch.Tensor:
        positions = torch.arange(start, end)
        blocks = self.table[request, positions // self.block_size].long()
        return blocks * self.block_size + positions % self.block_size

    def common(self, padding: int = 0, causal: bool = True) -> CommonAttentionMetadata:
        """As vLLM would hand it over, with ``padding`` rows after the last request."""
        starts = torch.tensor([0, *self.new]).cumsum(0).to(torch.int32)
        slots = [self.slots(r, self.cached[r], self.lengths[r]) for r in range(len(self.new))]
        slots.append(torch.full((padding,), -1))
        lengths = torch.tensor(self.lengths, dtype=torch.int32)
        return CommonAttentionMetadata(
            query_start_loc=starts,
            query_start_loc_cpu=starts,
            seq_lens=lengths,
            seq_lens_cpu_upper_bound=lengths,
            num_reqs=len(self.new),
            num_actual_tokens=sum(self.new) + padding,
            max_query_len=max(self.new, default=0),
            max_seq_len=max(self.lengths, default=0),
            block_table_tensor=self.table,
            slot_mapping=torch.cat(slots),
            causal=causal,
        )


def make_step(cached: list[int], new: list[int], *, block_size: int = 16, generator: torch.Generator) -> Step:
    """Blocks are dealt in random order; block 0 belongs to nobody and unused entries point to it."""
    needed = [-(-(c + n) // block_size) for c, n in zip(cached, new, strict=True)]
    blocks = sum(needed) + 3
    free = (torch.randperm(blocks - 1, generator=generator) + 1).tolist()
    table = torch.zeros(len(new), max(needed, default=0) + 2, dtype=torch.int32)
    for request, count in enumerate(needed):
        table[request, :count] = torch.tensor([free.pop() for _ in range(count)], dtype=torch.int32)
    return Step(cached, new, block_size, blocks, table)


def dense_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    scale: float,
    *,
    causal: bool = True,
    window: int | None = None,
    soft_cap: float | None = None,
    slopes: torch.Tensor | None = None,
    sinks: torch.Tensor | None = None,
) -> torch.Tensor:
    """One request in fp64, one query and head at a time: (q, heads, d), (k, kv_heads, d) -> (q, heads, d)."""
    queries, heads, _ = query.shape
    keys, kv_heads, _ = key.shape
    out = torch.zeros(queries, heads, value.shape[-1], dtype=torch.float64)
    for i in range(queries):
        position = keys - queries + i
        for h in range(heads):
            group = h // (heads // kv_heads)
            scores = key[:, group].double() @ query[i, h].double() * scale
            if soft_cap is not None:
                scores = soft_cap * torch.tanh(scores / soft_cap)
            distance = position - torch.arange(keys)
            if slopes is not None:
                scores = scores - float(slopes[h]) * distance
            if causal:
                scores[distance < 0] = float("-inf")
            if window is not None:
                scores[distance.abs() >= window] = float("-inf")
            if sinks is not None:
                scores = torch.cat([scores, sinks[h : h + 1].double()])
            out[i, h] = scores.softmax(0)[:keys] @ value[:, group].double()
    return out
