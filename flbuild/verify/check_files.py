"""Scripts that can start: a first line an engine understands, and an interpreter that exists."""

from __future__ import annotations

from collections.abc import Iterator

from flbuild.finding import Finding
from flbuild.lock.model import LockedImageBase
from flbuild.verify.context import Verification


def files(verification: Verification) -> Iterator[Finding]:
    """Shebangs of the console scripts and of the entrypoint."""
    scripts = verification.recipe.python.scripts.strip("/")
    base_unread = isinstance(verification.locked.base, LockedImageBase)
    for file in sorted(verification.view.below(scripts), key=lambda file: file.path):
        line, newline, _ = file.head.partition(b"\n")
        if not line.startswith(b"#!") or not newline:
            continue
        if line.endswith(b"\r"):
            yield _error(
                f"/{file.path}",
                "its first line ends in CR LF, so its interpreter is not found ('no such file or directory')",
                "store the script with LF line ends",
            )
            continue
        interpreter = line[2:].split()[0].decode(errors="replace") if line[2:].split() else ""
        known = verification.view.get(interpreter.lstrip("/")) is not None
        if not known and not base_unread:
            yield _error(f"/{file.path}", f"its interpreter {interpreter} is not in the image")


def _error(path: str, message: str, remedy: str | None = None) -> Finding:
    return Finding("error", "files", path, message, remedy or "correct python.executable in the recipe")
