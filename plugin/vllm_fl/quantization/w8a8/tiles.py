"""Tile sizes of the fused INT8 experts kernel, measured per GPU and shape.

vLLM looks its own up by shape alone, so INT8 weights run with tiles that were measured for bfloat16 ones.
``benchmarks/w8a8_experts.py --tune`` measures them, ``tiles.json`` keeps them.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

Tile = dict[str, int]
"""``BLOCK_SIZE_M``, ``BLOCK_SIZE_N``, ``BLOCK_SIZE_K``, ``GROUP_SIZE_M``, ``num_warps``, ``num_stages``."""


def tile(gpu: str, experts: int, hidden: int, intermediate: int, tokens: int) -> Tile | None:
    """The tile measured for the number of tokens nearest to ``tokens``; None for a shape nobody measured."""
    for model in _measured().get(gpu, ()):
        if (model["experts"], model["hidden"], model["intermediate"]) == (experts, hidden, intermediate):
            counts = {int(count): found for count, found in model["tiles"].items()}
            return counts[min(counts, key=lambda count: abs(count - tokens))]
    return None


@cache
def _measured() -> dict[str, list[dict[str, Any]]]:
    text = files(__package__).joinpath("tiles.json").read_text(encoding="utf-8")
    found: dict[str, list[dict[str, Any]]] = json.loads(text)
    return found
