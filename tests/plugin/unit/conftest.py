"""Fixtures of the unit tests."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Import vLLM before any module of the plugin, and after the environment is set.

    While vLLM is imported it asks for its platform, which imports ``vllm_fl.platform``. This file may be read
    before the environment is set: when a test below it is named on the command line.
    """
    import vllm  # noqa: F401


@pytest.fixture
def caplog_vllm(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """``caplog`` that also sees loggers made by vLLM, which do not propagate to the root."""
    loggers = [logging.getLogger(name) for name in ("vllm", "vllm_fl")]
    before = [logger.propagate for logger in loggers]
    for logger in loggers:
        logger.propagate = True
    yield caplog
    for logger, value in zip(loggers, before, strict=True):
        logger.propagate = value


@pytest.fixture
def vllm_config() -> Iterator[Any]:
    """The configuration in which layers are built: eager, every custom operator on."""
    from vllm.config import CompilationConfig, CompilationMode, VllmConfig, set_current_vllm_config

    compilation = CompilationConfig(mode=CompilationMode.NONE, custom_ops=["all"])
    config = VllmConfig(compilation_config=compilation)
    with set_current_vllm_config(config):
        yield config


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every replacement of the plugin in force, and none of the layers after the test."""
    import torch
    from vllm.model_executor import custom_op
    from vllm_fl import envs
    from vllm_fl.ops import register_layers

    monkeypatch.setattr(custom_op, "op_registry_oot", {})
    torch.manual_seed(0)
    register_layers(envs.read({}))
