"""What a user gets wrong is answered by one clear error before any weight is read."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.plugin.e2e.conftest import Engines

Arguments = Callable[..., dict[str, Any]]
LOADING = "load_weights"


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"enforce_eager": False}, "--enforce-eager"),
        ({"block_size": 24}, "--block-size 24"),
        ({"kv_cache_dtype": "fp8"}, "--kv-cache-dtype"),
        ({"attention_backend": "FLASH_ATTN"}, "--attention-backend"),
        ({"quantization": "fp8", "dtype": "bfloat16"}, "--quantization fp8"),
        ({"enable_lora": True}, "--enable-lora"),
    ],
)
def test_an_unsupported_option_is_named(
    options: dict[str, Any], named: str, engines: Engines, arguments: Arguments
) -> None:
    error = engines.refusal(arguments("qwen3", **options))
    assert named in error
    assert LOADING not in error


def test_the_second_runner_is_refused_where_triton_has_no_driver(
    start_engines: Callable[..., Engines], arguments: Arguments
) -> None:
    second = start_engines(
        "second_runner",
        VLLM_ENABLE_V1_MULTIPROCESSING="0",
        VLLM_USE_V2_MODEL_RUNNER="1",
        TRITON_INTERPRET="0",
    )
    error = second.refusal(arguments("qwen3"))
    assert "VLLM_USE_V2_MODEL_RUNNER=0" in error
    assert LOADING not in error


def test_an_unknown_platform_lists_those_there_are(
    start_engines: Callable[..., Engines], arguments: Arguments
) -> None:
    unknown = start_engines("unknown", VLLM_ENABLE_V1_MULTIPROCESSING="0", VLLM_FL_PLATFORM="ascent")
    error = unknown.refusal(arguments("qwen3"))
    assert "ascent" in error
    assert "ascend, nvidia" in error.replace("'", "")


def test_a_missing_shard_is_named(
    engines: Engines, arguments: Arguments, checkpoint: Callable[[str], Path], tmp_path: Path
) -> None:
    shutil.copytree(checkpoint("qwen3"), tmp_path, dirs_exist_ok=True)
    index = {"weight_map": {"a": "model.safetensors", "b": "model-00002-of-00002.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    error = engines.refusal(arguments("qwen3", model=str(tmp_path)))
    assert "model-00002-of-00002.safetensors" in error
    assert LOADING not in error


def test_a_bad_policy_file_stops_the_engine_before_it_reads_weights(
    start_engines: Callable[..., Engines], arguments: Arguments, tmp_path: Path
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("prefer: nobody")
    bad = start_engines("bad_policy", VLLM_ENABLE_V1_MULTIPROCESSING="0", VLLM_FL_CONFIG=str(policy))
    error = bad.refusal(arguments("qwen3"))
    assert str(policy) in error
    assert "nobody" in error
    assert LOADING not in error
