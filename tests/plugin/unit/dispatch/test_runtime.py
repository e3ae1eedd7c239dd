"""What a worker starts, and how its logs are shown."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from vllm_fl import dispatch
from vllm_fl.dispatch import runtime


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in ("vllm_fl", "vllm_fl.dispatch")]
    before = [(logger.level, logger.propagate, list(logger.handlers)) for logger in loggers]
    yield
    for logger, (level, propagate, handlers) in zip(loggers, before, strict=True):
        logger.setLevel(level)
        logger.propagate = propagate
        logger.handlers[:] = handlers
    manager = dispatch.get_default_manager()
    manager.rank = 0
    manager.arch = lambda: None


@pytest.fixture
def cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_FL_PLATFORM", "cpu")


@pytest.mark.usefixtures("cpu")
def test_a_worker_knows_its_rank_and_follows_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_FL_STRICT", "1")
    dispatch.start_worker_runtime(3)
    manager = dispatch.get_default_manager()
    assert manager.rank == 3
    assert manager.policy.strict
    assert manager.get_selected_impl_id("rms_norm") == "reference.torch"


@pytest.mark.usefixtures("cpu")
def test_a_bad_policy_stops_the_worker_before_it_builds_anything(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("VLLM_FL_CONFIG", str(tmp_path / "absent.yaml"))
    with pytest.raises(FileNotFoundError, match="VLLM_FL_CONFIG"):
        dispatch.start_worker_runtime(0)


@pytest.mark.usefixtures("cpu")
def test_the_first_rank_points_out_misspelled_variables(
    monkeypatch: pytest.MonkeyPatch, caplog_vllm: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("VLLM_FL_PREFERR", "vendor")
    dispatch.start_worker_runtime(1)
    assert "VLLM_FL_PREFERR" not in caplog_vllm.text
    logging.getLogger("vllm_fl").propagate = True
    with caplog_vllm.at_level(logging.WARNING):
        monkeypatch.setattr(runtime, "_show_logs", lambda env: None)
        dispatch.start_worker_runtime(0)
    assert "VLLM_FL_PREFERR is set but unknown; perhaps you meant VLLM_FL_PREFER" in caplog_vllm.text


@pytest.mark.usefixtures("cpu")
@pytest.mark.parametrize(
    ("variables", "plugin", "core"),
    [
        ({}, logging.INFO, logging.INFO),
        ({"VLLM_FL_LOG_LEVEL": "WARNING"}, logging.WARNING, logging.WARNING),
        ({"VLLM_FL_DISPATCH_DEBUG": "1"}, logging.INFO, logging.DEBUG),
    ],
)
def test_messages_go_where_vllms_go_at_the_level_asked_for(
    variables: dict[str, str], plugin: int, core: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    handler = logging.NullHandler()
    monkeypatch.setattr(logging.getLogger("vllm"), "handlers", [handler])
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    dispatch.start_worker_runtime(0)
    dispatch.start_worker_runtime(0)
    assert logging.getLogger("vllm_fl").handlers.count(handler) == 1
    assert logging.getLogger("vllm_fl").getEffectiveLevel() == plugin
    assert logging.getLogger("vllm_fl.dispatch.manager").getEffectiveLevel() == core


@pytest.mark.usefixtures("cpu")
def test_flaggems_is_enabled_in_the_worker_with_its_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    enabled: list[tuple[str | None, int]] = []
    monkeypatch.setattr(
        runtime, "enable_flaggems", lambda settings, rank: enabled.append((settings.device, rank))
    )
    dispatch.start_worker_runtime(2)
    assert enabled == [("cpu", 2)]
