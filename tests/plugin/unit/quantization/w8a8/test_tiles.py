"""Tile sizes are found by GPU, shape and number of tokens. No rung: data."""

from __future__ import annotations

import pytest
from vllm_fl.quantization.w8a8.tiles import _measured, tile

SHAPE = ("NVIDIA H200", 128, 2048, 768)
KEYS = {"BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "GROUP_SIZE_M", "num_warps", "num_stages"}


@pytest.mark.parametrize(
    ("tokens", "measured"), [(1, 1), (2, 1), (40, 32), (400, 512), (3000, 4096), (9999, 4096)]
)
def test_the_nearest_number_of_tokens_that_was_measured_counts(tokens: int, measured: int) -> None:
    assert tile(*SHAPE, tokens) == tile(*SHAPE, measured)


@pytest.mark.parametrize("shape", [("NVIDIA A100", 128, 2048, 768), ("NVIDIA H200", 64, 2048, 768)])
def test_an_unmeasured_shape_is_left_to_vllm(shape: tuple[str, int, int, int]) -> None:
    assert tile(*shape, 32) is None


def test_every_tile_says_all_that_the_kernel_asks_for() -> None:
    tiles = [
        found for models in _measured().values() for model in models for found in model["tiles"].values()
    ]
    assert tiles
    assert all(set(found) == KEYS for found in tiles)
