"""Writing files so that a killed process leaves the old content or the new, never half of it."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

CHUNK = 1 << 20


@contextmanager
def atomic_writer(path: Path, *, mode: int = 0o644) -> Iterator[BinaryIO]:
    """Open a temporary file beside `path` for writing; it takes its name only if the block ends well.

    What a killed process left of the same file goes away.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _sweep(path.parent, path.name)
    prefix = f".{path.name}.{os.getpid()}."
    descriptor, name = tempfile.mkstemp(prefix=prefix, suffix=".tmp", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        temporary.chmod(mode)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def unnamed_file(folder: Path) -> Iterator[tuple[BinaryIO, Path]]:
    """A file in `folder` whose final name is known only when it is written; rename it, or it goes away."""
    with unnamed_folder(folder) as temporary:
        path = temporary / "file"
        with path.open("wb") as stream:
            yield stream, path


@contextmanager
def unnamed_folder(parent: Path, name: str = "new") -> Iterator[Path]:
    """A folder in `parent` for work whose result is renamed out of it; gone when the block ends.

    It carries the number of this process, so that what a killed process left is told from what is in use.
    """
    parent.mkdir(parents=True, exist_ok=True)
    _sweep(parent, name)
    temporary = Path(tempfile.mkdtemp(prefix=f".{name}.{os.getpid()}.", dir=parent))
    temporary.chmod(0o755)
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _sweep(parent: Path, name: str) -> None:
    """Remove temporary files and folders of `name` whose process does not run any more."""
    start = f".{name}."
    with os.scandir(parent) as entries:
        found = [Path(entry.path) for entry in entries if entry.name.startswith(start)]
    for left in found:
        number = left.name.removeprefix(start).split(".")[0]
        if not number.isdigit() or _is_running(int(number)):
            continue
        if left.is_dir():
            shutil.rmtree(left, ignore_errors=True)
        else:
            left.unlink(missing_ok=True)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def write_atomic(path: Path, content: bytes | str, *, mode: int = 0o644) -> None:
    """Write `content` (text as UTF-8) to `path` in one step."""
    with atomic_writer(path, mode=mode) as stream:
        stream.write(content.encode() if isinstance(content, str) else content)


def link_or_copy(source: Path, target: Path) -> None:
    """Give a file of the cache a second name, or copy it where one file system does not hold both.

    A program that writes to it by that name takes the cache's mark away, see `seal`.
    """
    try:
        target.hardlink_to(source)
    except OSError:
        shutil.copyfile(source, target)


def sha256_bytes(content: bytes) -> str:
    """Lower-case hexadecimal SHA-256 of bytes."""
    return hashlib.sha256(content).hexdigest()


def sha256_file(path: Path) -> str:
    """Lower-case hexadecimal SHA-256 of a file, read in pieces."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def seal(path: Path, sha256: str) -> None:
    """Mark a file whose bytes are known to have a SHA-256 (hexadecimal).

    The mark is a modification time that comes from the hash: later runs need not read gigabytes again, and
    any program that writes to the file takes the mark away.
    """
    mark = _mark(sha256)
    os.utime(path, (mark, mark))


def is_sealed(path: Path, sha256: str) -> bool:
    """Whether `path` carries the mark of `sha256`; a missing file is an OSError."""
    return int(path.stat().st_mtime) == _mark(sha256)


def _mark(sha256: str) -> int:
    return int(sha256[:7], 16)
