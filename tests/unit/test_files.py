from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from flbuild.files import (
    atomic_writer,
    is_sealed,
    link_or_copy,
    seal,
    sha256_file,
    unnamed_folder,
    write_atomic,
)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def killed_in(block: Callable[[], None]) -> None:
    """Run `block` in a process that is killed by it."""
    child = os.fork()
    if child == 0:
        try:
            block()
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL


def test_a_block_that_fails_leaves_the_old_content_and_nothing_else(tmp_path: Path) -> None:
    write_atomic(tmp_path / "file", "old")

    def fail() -> None:
        with atomic_writer(tmp_path / "file") as stream:
            stream.write(b"half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert (tmp_path / "file").read_text() == "old"
    assert names(tmp_path) == {"file"}


def test_what_a_killed_process_left_of_a_file_goes_when_it_is_written_again(tmp_path: Path) -> None:
    def block() -> None:
        with atomic_writer(tmp_path / "file") as stream:
            stream.write(b"half")
            os.kill(os.getpid(), signal.SIGKILL)

    killed_in(block)
    assert len(names(tmp_path)) == 1
    assert "file" not in names(tmp_path)
    write_atomic(tmp_path / "file", "whole")
    assert names(tmp_path) == {"file"}


def test_what_a_killed_process_left_of_a_folder_goes_when_the_next_is_made(tmp_path: Path) -> None:
    def block() -> None:
        with unnamed_folder(tmp_path) as folder:
            (folder / "file").touch()
            os.kill(os.getpid(), signal.SIGKILL)

    killed_in(block)
    assert len(names(tmp_path)) == 1
    with unnamed_folder(tmp_path) as folder:
        assert names(tmp_path) == {folder.name}
    assert not names(tmp_path)


def test_two_writers_at_once_leave_each_others_work_alone(tmp_path: Path) -> None:
    with atomic_writer(tmp_path / "file") as first:
        first.write(b"first")
        with atomic_writer(tmp_path / "file") as second:
            second.write(b"second")
        assert (tmp_path / "file").read_text() == "second"
    assert (tmp_path / "file").read_text() == "first"
    assert names(tmp_path) == {"file"}


def test_a_file_of_another_name_is_never_taken_for_a_leftover(tmp_path: Path) -> None:
    other = tmp_path / ".file.yaml.keep"
    other.touch()
    write_atomic(tmp_path / "file", "new")
    assert other.exists()


def test_any_write_by_a_second_name_takes_the_mark_away(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    sha256 = sha256_file(path)
    seal(path, sha256)
    link_or_copy(path, tmp_path / "second")
    assert is_sealed(path, sha256)
    (tmp_path / "second").write_bytes(b"CONTENT")
    assert not is_sealed(path, sha256)
