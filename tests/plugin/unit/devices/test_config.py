"""Refusals and adjustments, on configurations made the way the command line makes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from vllm_fl.devices.ascend import ASCEND
from vllm_fl.devices.base import Device
from vllm_fl.devices.config import check_config, fit_config
from vllm_fl.devices.cpu import CPU

Configure = Callable[..., Any]


@pytest.fixture(scope="module")
def configure(checkpoint: Callable[[str], Path]) -> Configure:
    from vllm.engine.arg_utils import EngineArgs

    def make(model: str = "qwen3", **options: Any) -> Any:
        options = {"dtype": "float32", "enforce_eager": True, "max_model_len": 256, **options}
        return EngineArgs(model=str(checkpoint(model)), **options).create_engine_config()

    return make


@pytest.mark.parametrize(
    ("model", "options", "named"),
    [
        ("qwen3", {"enforce_eager": False}, "--enforce-eager"),
        ("qwen3", {"enforce_eager": False, "optimization_level": 3}, "--enforce-eager"),
        (
            "qwen3",
            {"enforce_eager": False, "compilation_config": {"cudagraph_mode": "FULL"}},
            "--enforce-eager",
        ),
        ("qwen3", {"attention_backend": "FLASH_ATTN"}, "--attention-backend"),
        ("qwen3", {"kv_cache_dtype": "fp8"}, "--kv-cache-dtype auto"),
        ("qwen3", {"block_size": 24}, "--block-size 24"),
        ("qwen3", {"prefill_context_parallel_size": 2}, "--prefill-context-parallel-size"),
        (
            "deepseek_v2",
            {"decode_context_parallel_size": 2, "tensor_parallel_size": 2},
            "--decode-context-parallel-size",
        ),
        ("qwen3", {"enable_dbo": True, "all2all_backend": "deepep_low_latency"}, "--enable-dbo"),
        (
            "qwen3",
            {
                "speculative_config": {
                    "method": "ngram",
                    "num_speculative_tokens": 2,
                    "prompt_lookup_max": 3,
                }
            },
            "--speculative-config",
        ),
        ("qwen3", {"enable_lora": True}, "--enable-lora"),
        ("qwen3_moe", {"data_parallel_size": 2}, "--data-parallel-size"),
        ("qwen3", {"enable_sleep_mode": True}, "Sleep mode"),
        (
            "qwen3_moe",
            {"enable_eplb": True, "enable_expert_parallel": True, "tensor_parallel_size": 2},
            "load balancing",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_B86_an_unsupported_option_is_refused_by_name_before_weights_are_read(
    model: str, options: dict[str, Any], named: str, configure: Configure
) -> None:
    with pytest.raises(ValueError, match=named):
        configure(model, **options)


@pytest.mark.parametrize(("device", "expected"), [(CPU, "TRITON_INTERPRET=1"), (ASCEND, "ascend")])
def test_second_runner_is_refused_with_the_way_back(
    device: Device, expected: str, configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = configure()
    monkeypatch.setenv("VLLM_USE_V2_MODEL_RUNNER", "1")
    with pytest.raises(ValueError, match="VLLM_USE_V2_MODEL_RUNNER=0") as refused:
        check_config(config, device)
    assert expected in str(refused.value)


def test_unquantized_devices_refuse_quantized_checkpoints(
    configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = configure()
    monkeypatch.setattr(config.model_config, "quantization", "gptq")
    with pytest.raises(ValueError, match="--quantization gptq is not supported on device 'cpu'"):
        check_config(config, CPU)
    check_config(config, replace(CPU, quantizations=("gptq",)))


def test_block_sizes_follow_the_device(configure: Configure) -> None:
    config = configure(block_size=128)
    check_config(config, ASCEND)
    config.cache_config.block_size = 192
    check_config(config, CPU)
    with pytest.raises(ValueError, match=r"--block-size 192 .* multiple of 128"):
        check_config(config, ASCEND)


def test_adjusting_twice_gives_the_same_configuration(configure: Configure) -> None:
    config = configure()
    once = repr(config)
    fit_config(config, CPU)
    check_config(config, CPU)
    assert repr(config) == once
    assert config.parallel_config.worker_cls == CPU.worker_class
    assert config.scheduler_config.async_scheduling is False


def test_a_stopped_server_waits_for_its_workers_unless_told_how_long(configure: Configure) -> None:
    assert configure().shutdown_timeout == CPU.shutdown_seconds > 0
    assert configure(shutdown_timeout=33).shutdown_timeout == 33


def test_a_worker_class_the_user_chose_is_kept(configure: Configure) -> None:
    assert configure(worker_cls="mine.Worker").parallel_config.worker_cls == "mine.Worker"


@pytest.mark.parametrize("device", [CPU, ASCEND])
def test_a_configuration_without_a_model_is_accepted(device: Device) -> None:
    from vllm.config import VllmConfig

    config = VllmConfig()
    check_config(config, device)
    fit_config(config, device)


def test_B67_many_batched_tokens_on_ascend_are_a_warning_only(
    configure: Configure, caplog_vllm: pytest.LogCaptureFixture
) -> None:
    config = configure(max_num_batched_tokens=65536)
    fit_config(config, ASCEND)
    assert "--max-num-batched-tokens 65536 is more than the 4096" in caplog_vllm.text


def test_B101_hardware_agnostic_layers_are_warned_about(
    configure: Configure, monkeypatch: pytest.MonkeyPatch, caplog_vllm: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("VLLM_USE_HW_AGNOSTIC", "1")
    fit_config(configure(), CPU)
    assert "VLLM_USE_HW_AGNOSTIC is set" in caplog_vllm.text


def test_the_second_runner_follows_environment_architecture_and_triton(
    configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = configure()
    for triton, variable, expected in [
        (False, None, False),
        (True, None, True),
        (True, "0", False),
        (True, "1", True),
    ]:
        monkeypatch.setattr("vllm.config.vllm.HAS_TRITON", triton)
        if variable is None:
            monkeypatch.delenv("VLLM_USE_V2_MODEL_RUNNER", raising=False)
        else:
            monkeypatch.setenv("VLLM_USE_V2_MODEL_RUNNER", variable)
        assert config.use_v2_model_runner is expected
