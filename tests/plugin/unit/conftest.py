"""Fixtures of the unit tests."""

from __future__ import annotations

import logging
from collections.abc import Iterator

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
