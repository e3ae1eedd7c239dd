"""The file that lists FlagGems operators in use."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from vllm_fl.dispatch import oplist
from vllm_fl.dispatch.oplist import oplist_path, record_use
from vllm_fl.dispatch.types import OpImpl

FLAGOS = OpImpl("rms_norm", "default.flagos", "flagos", print)


@pytest.fixture
def handler(tmp_path: Path) -> Iterator[logging.FileHandler]:
    """The handler as FlagGems makes it: once per source line, at level DEBUG."""
    made = logging.FileHandler(tmp_path / "oplist.txt", mode="w")
    made._flaggems_owned = True  # type: ignore[attr-defined]
    seen: set[int] = set()
    made.addFilter(lambda record: record.lineno not in seen and not seen.add(record.lineno))  # type: ignore[func-returns-value]
    library = logging.getLogger("flag_gems")
    library.addHandler(made)
    yield made
    library.removeHandler(made)
    made.close()


def test_each_flaggems_implementation_gets_a_line_in_flaggems_own_file(
    handler: logging.FileHandler, tmp_path: Path
) -> None:
    handler.stream.write("[DEBUG] flag_gems.ops.mm.mm: GEMS MM\n")
    for op in ("rms_norm", "silu_and_mul", "moe_sum"):
        record_use(OpImpl(op, "default.flagos", "flagos", print))
    record_use(OpImpl("moe_sum", "vendor.cuda", "vendor", print, vendor="cuda"))
    record_use(OpImpl("moe_sum", "reference.torch", "reference", print))
    assert (tmp_path / "oplist.txt").read_text().splitlines() == [
        "[DEBUG] flag_gems.ops.mm.mm: GEMS MM",
        "vllm_fl.dispatch.ops.rms_norm: default.flagos",
        "vllm_fl.dispatch.ops.silu_and_mul: default.flagos",
        "vllm_fl.dispatch.ops.moe_sum: default.flagos",
    ]


def test_ranks_without_flaggems_handler_record_nothing(tmp_path: Path) -> None:
    other = logging.FileHandler(tmp_path / "other.txt")
    logging.getLogger("flag_gems").addHandler(other)
    try:
        record_use(FLAGOS)
    finally:
        logging.getLogger("flag_gems").removeHandler(other)
        other.close()
    assert (tmp_path / "other.txt").read_text() == ""


def test_a_failing_write_is_a_warning(
    handler: logging.FileHandler, caplog_vllm: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full() -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(handler, "flush", full)
    record_use(FLAGOS)
    monkeypatch.undo()
    assert "The use of rms_norm is not recorded: No space left" in caplog_vllm.text


def test_the_default_place_is_private_to_user_and_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oplist.tempfile, "gettempdir", lambda: str(tmp_path))
    path = oplist_path(None)
    assert path == tmp_path / f"vllm_fl-{os.getuid()}" / f"oplist-{os.getpid()}.txt"
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert oplist_path(None) == path


def test_a_folder_that_others_prepared_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog_vllm: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(oplist.tempfile, "gettempdir", lambda: str(tmp_path))
    trap = tmp_path / f"vllm_fl-{os.getuid()}"
    trap.mkdir()
    trap.chmod(0o777)
    assert oplist_path(None) is None
    assert "not a folder of this user alone" in caplog_vllm.text
    trap.rmdir()
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    trap.symlink_to(tmp_path / "elsewhere")
    assert oplist_path(None) is None


def test_a_place_that_cannot_be_written_is_a_warning_only(
    tmp_path: Path, caplog_vllm: pytest.LogCaptureFixture
) -> None:
    assert oplist_path(str(tmp_path / "absent" / "oplist.txt")) is None
    assert "FLAGGEMS_ENABLE_OPLIST_PATH: operators in use are not recorded" in caplog_vllm.text
    assert oplist_path(str(tmp_path / "oplist.txt")) == tmp_path / "oplist.txt"
