"""Rung 3: tiny checkpoints, fp32, greedy, token by token against Hugging Face transformers."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.plugin.checkpoints import MODELS, NEW_TOKENS, Reference
from tests.plugin.e2e.conftest import Engines

Expected = Callable[[str], list[Reference]]
Arguments = Callable[..., dict[str, Any]]


@pytest.mark.parametrize("model", MODELS)
def test_references_are_decided_by_more_than_rounding(model: str, expected: Expected) -> None:
    assert min(reference.margin for reference in expected(model)) > 1e-4
    assert len({token for reference in expected(model) for token in reference.generated}) > 20


@pytest.mark.parametrize("model", MODELS)
def test_B83_v1_runner_without_triton_or_compiler_equals_transformers_unchunked(
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
    ("model", "layout"),
    [
        ("qwen3", {"pipeline_parallel_size": 2}),
        ("qwen3_moe", {"tensor_parallel_size": 2}),
        ("qwen3_moe", {"tensor_parallel_size": 2, "enable_expert_parallel": True}),
        ("deepseek_v3", {"tensor_parallel_size": 2}),
        ("qwen3_next", {"tensor_parallel_size": 2}),
    ],
    ids=["qwen3-PP2", "qwen3_moe-TP2", "qwen3_moe-TP2-EP", "deepseek_v3-TP2", "qwen3_next-TP2"],
)
def test_two_ranks_equal_transformers(
    model: str, layout: dict[str, Any], parallel_engines: Engines, expected: Expected, arguments: Arguments
) -> None:
    parallel_engines.greedy(arguments(model, **layout), expected(model))


def test_B55_workers_in_processes_of_their_own_use_the_replaced_layers(
    parallel_engines: Engines, arguments: Arguments
) -> None:
    engine = arguments("qwen3_next", tensor_parallel_size=2)
    models = parallel_engines.models(engine)
    assert len(models) == 2
    assert all("): QwenGatedDeltaNetAttentionFL(" in model for model in models)


def test_v2_runner_samples_and_follows_a_regex(v2_engines: Engines, arguments: Arguments) -> None:
    sampling = {"temperature": 0.8, "top_p": 0.9, "top_k": 20, "seed": 5, "max_tokens": 8}
    regex = {"temperature": 1.0, "seed": 5, "max_tokens": 12, "regex": "(red|blue)[0-9]{3}"}
    batch = [{"prompt": "red number", "sampling": sampling}] * 8 + [{"prompt": "green", "sampling": regex}]
    (outputs,) = v2_engines.ask(arguments("qwen3"), batch)
    assert len({tuple(output["tokens"][0]) for output in outputs[:8]}) == 1
    assert re.fullmatch(regex["regex"], outputs[8]["text"][0])


def test_B13_logprobs_of_generated_tokens_equal_those_of_transformers(
    engines: Engines, expected: Expected, arguments: Arguments, checkpoint: Callable[[str], Path]
) -> None:
    import torch
    import transformers

    reference = max(expected("qwen3"), key=lambda reference: len(reference.prompt))
    sampling = {"temperature": 0, "max_tokens": NEW_TOKENS, "ignore_eos": True, "logprobs": 1}
    engine = arguments("qwen3", max_num_batched_tokens=32)
    ((output,),) = engines.ask(engine, [{"prompt": list(reference.prompt), "sampling": sampling}])
    found = [step[str(token)] for step, token in zip(output["logprobs"], reference.generated, strict=True)]
    model = transformers.AutoModelForCausalLM.from_pretrained(checkpoint("qwen3"), dtype=torch.float32)
    ids = torch.tensor([[*reference.prompt, *reference.generated]])
    with torch.inference_mode():
        logprobs = model(ids).logits[0, len(reference.prompt) - 1 : -1].log_softmax(-1)
    wanted = logprobs.gather(1, torch.tensor(reference.generated)[:, None])[:, 0]
    torch.testing.assert_close(torch.tensor(found), wanted, atol=1e-4, rtol=0)


@pytest.mark.parametrize("block_size", [16, 64])
def test_B60_the_block_size_of_the_cache_manager_does_not_change_tokens(
    block_size: int, engines: Engines, expected: Expected, arguments: Arguments
) -> None:
    engines.greedy(arguments("qwen3", block_size=block_size), expected("qwen3"))
