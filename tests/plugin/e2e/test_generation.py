"""Rung 3: tiny checkpoints, fp32, greedy, token by token against Hugging Face transformers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.plugin.checkpoints import MODELS, Reference
from tests.plugin.e2e.conftest import Engines

Expected = Callable[[str], list[Reference]]
Arguments = Callable[..., dict[str, Any]]


@pytest.mark.parametrize("model", MODELS)
def test_references_are_decided_by_more_than_rounding(model: str, expected: Expected) -> None:
    assert min(reference.margin for reference in expected(model)) > 1e-4
    assert len({token for reference in expected(model) for token in reference.generated}) > 20


@pytest.mark.parametrize("model", MODELS)
def test_v1_runner_equals_transformers_unchunked_without_prefix_cache(
    model: str, engines: Engines, expected: Expected, arguments: Arguments
) -> None:
    cached = engines.greedy(arguments(model, enable_prefix_caching=False), expected(model), runs=2)
    assert not any(cached[1])


@pytest.mark.parametrize("model", MODELS)
def test_B48_B95_v1_runner_equals_transformers_in_chunks_of_32_with_cached_prefixes(
    model: str, engines: Engines, expected: Expected, arguments: Arguments
) -> None:
    engine = arguments(model, enable_prefix_caching=True, max_num_batched_tokens=32)
    cached = engines.greedy(engine, expected(model), runs=2)
    assert max(cached[1]) >= 64


@pytest.mark.parametrize("model", ["qwen3", "qwen3_moe", "deepseek_v2", "qwen3_next"])
def test_v2_runner_equals_transformers(
    model: str, v2_engines: Engines, expected: Expected, arguments: Arguments
) -> None:
    v2_engines.greedy(arguments(model), expected(model))


@pytest.mark.parametrize(
    ("model", "expert_parallel"),
    [("qwen3_moe", False), ("qwen3_moe", True), ("deepseek_v3", False), ("qwen3_next", False)],
)
def test_two_tensor_parallel_ranks_equal_transformers(
    model: str, expert_parallel: bool, parallel_engines: Engines, expected: Expected, arguments: Arguments
) -> None:
    engine = arguments(model, tensor_parallel_size=2, enable_expert_parallel=expert_parallel)
    parallel_engines.greedy(engine, expected(model))


@pytest.mark.parametrize("block_size", [16, 64])
def test_B60_the_block_size_of_the_cache_manager_does_not_change_tokens(
    block_size: int, engines: Engines, expected: Expected, arguments: Arguments
) -> None:
    engines.greedy(arguments("qwen3", block_size=block_size), expected("qwen3"))
