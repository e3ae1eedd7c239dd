"""Every installed file is what its distribution's RECORD says, and every file has a RECORD."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from flbuild.finding import Finding
from flbuild.verify.context import Installed, Verification
from flbuild.verify.record import broken_rows, rows

SHOWN = 5
"""Files named per distribution; the rest is counted."""


def record(verification: Verification) -> Iterator[Finding]:
    """Check RECORD in both directions, for the layers that were read.

    Distributions of the base without a RECORD, as Debian packages leave them, are the base's affair.
    """
    recorded: set[str] = set()
    base = verification.locked.base
    carried = {item.location.strip("/") for item in base.inventory} if base is not None else set()
    for item in verification.installed:
        if item.from_base:
            continue
        content = verification.view.contents.get(f"{item.info}/RECORD")
        if content is not None:
            yield from _summarise(item.name, list(_problems(verification, item, content, recorded)))
        elif item.info not in carried:
            yield _error(item.name, f"/{item.info} has no RECORD")
    files = verification.view.below(verification.site_packages)
    loose = sorted(file.path for file in files if file.path not in recorded)
    byte_code = [path for path in loose if _is_byte_code_of(path, recorded)]
    stray = [path for path in loose if path not in set(byte_code)]
    yield from _summarise("unowned", [f"/{path} belongs to no distribution" for path in stray])
    if byte_code:
        yield Finding(
            "warning",
            "record",
            "byte-code",
            f"{len(byte_code)} files of byte-code are in no RECORD, so nothing tells whether they fit their "
            f"modules, for example /{byte_code[0]}",
            "build without byte-code, or with a builder that records it",
        )


def _problems(
    verification: Verification, item: Installed, content: bytes, recorded: set[str]
) -> Iterator[str]:
    for row in broken_rows(content):
        yield f"a row of RECORD is broken: {row}"
    for entry in rows(content, posixpath.dirname(item.info)):
        recorded.add(entry.path)
        file = verification.view.get(entry.path)
        problem = "is recorded, and missing" if file is None else entry.difference(file)
        if problem is not None:
            yield f"/{entry.path} {problem}"


def _is_byte_code_of(path: str, recorded: set[str]) -> bool:
    """A .pyc beside a recorded module: an interpreter may add it later."""
    folder, name = posixpath.split(path)
    if posixpath.basename(folder) != "__pycache__" or not name.endswith(".pyc"):
        return False
    return f"{posixpath.dirname(folder)}/{name.split('.')[0]}.py" in recorded


def _summarise(subject: str, problems: list[str]) -> Iterator[Finding]:
    for problem in problems[:SHOWN]:
        yield _error(subject, problem)
    if len(problems) > SHOWN:
        yield _error(subject, f"and {len(problems) - SHOWN} more files like these")


def _error(subject: str, message: str) -> Finding:
    remedy = "the image was changed after its wheels were installed; build it again from the lock"
    return Finding("error", "record", subject, message, remedy)
