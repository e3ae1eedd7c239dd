"""Fixtures for tests that build vLLM's layers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch


@pytest.fixture
def vllm_config() -> Iterator[object]:
    """The configuration in which layers are built: eager, every custom operator on."""
    from vllm.config import CompilationConfig, CompilationMode, VllmConfig, set_current_vllm_config

    compilation = CompilationConfig(mode=CompilationMode.NONE, custom_ops=["all"])
    config = VllmConfig(compilation_config=compilation)
    with set_current_vllm_config(config):
        yield config


@pytest.fixture
def one_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A tensor-parallel group of this process alone."""
    from vllm.distributed import parallel_state

    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    parallel_state.init_distributed_environment(1, 0, f"file://{tmp_path}/store", 0, "gloo")
    parallel_state.initialize_model_parallel(1)
    yield
    parallel_state.destroy_model_parallel()
    parallel_state.destroy_distributed_environment()


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every replacement of the plugin in force, and none after the test."""
    from vllm.model_executor import custom_op
    from vllm_fl import envs
    from vllm_fl.ops import register_layers

    monkeypatch.setattr(custom_op, "op_registry_oot", {})
    torch.manual_seed(0)
    register_layers(envs.read({}))
