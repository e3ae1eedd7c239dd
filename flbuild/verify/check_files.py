"""Scripts that can start: a first line an engine understands, and an interpreter that exists."""

from __future__ import annotations

from collections.abc import Iterator

from flbuild.finding import Finding
from flbuild.verify.context import Verification
from flbuild.verify.view import File


def files(verification: Verification) -> Iterator[Finding]:
    """First lines of the console scripts and of what the image starts.

    Where layers of the base were not read, an interpreter may be in them.
    """
    complete = len(verification.view.read) == len(verification.subject.layers)
    for file in _scripts(verification):
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
        words = line[2:].split()
        interpreter = words[0].decode(errors="replace") if words else ""
        if complete and verification.view.get(interpreter) is None:
            yield _error(
                f"/{file.path}",
                f"its interpreter '{interpreter}' is not in the image",
                "correct python.executable in the recipe",
            )


def _scripts(verification: Verification) -> list[File]:
    scripts = set(verification.view.below(verification.recipe.python.scripts))
    for command in (verification.recipe.entrypoint, verification.recipe.cmd):
        started = verification.view.get(command[0]) if command and command[0].startswith("/") else None
        scripts |= {started} if started is not None else set()
    return sorted(scripts, key=lambda file: file.path)


def _error(path: str, message: str, remedy: str) -> Finding:
    return Finding("error", "files", path, message, remedy)
