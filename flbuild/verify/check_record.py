"""Every installed file is what its distribution's RECORD says, and every file has a RECORD (PEP 376)."""

from __future__ import annotations

import csv
import io
import posixpath
from collections.abc import Iterator

from flbuild.build.oci.install import encode_digest
from flbuild.finding import Finding
from flbuild.verify.context import Installed, Verification

SHOWN = 5
"""Files named per distribution; the rest is counted."""


def record(verification: Verification) -> Iterator[Finding]:
    """Check RECORD in both directions, for the layers that were read."""
    recorded: set[str] = set()
    for item in verification.installed:
        if item.from_base:
            continue
        content = verification.view.contents.get(f"{item.info}/RECORD")
        if content is None:
            yield _finding("error", item.name, f"/{item.info} has no RECORD")
            continue
        rows = list(csv.reader(io.StringIO(content.decode("utf-8", errors="replace"))))
        yield from _summarise(item.name, list(_rows(verification, item, rows, recorded)))
    root = verification.site_packages + "/"
    stray = sorted(
        file.path
        for file in verification.view.below(root.rstrip("/"))
        if file.path not in recorded and not _is_byte_code_of(file.path, recorded)
    )
    yield from _summarise("unowned", [f"/{path} belongs to no distribution" for path in stray])


def _rows(
    verification: Verification, item: Installed, rows: list[list[str]], recorded: set[str]
) -> Iterator[str]:
    root = posixpath.dirname(item.info)
    for row in rows:
        if not row:
            continue
        if len(row) != 3:
            yield f"a row of RECORD has {len(row)} fields: {','.join(row)}"
            continue
        path = posixpath.normpath(posixpath.join(root, row[0])).lstrip("/")
        recorded.add(path)
        file = verification.view.get(path)
        if file is None:
            yield f"/{path} is recorded, and missing"
            continue
        algorithm, _, value = row[1].partition("=")
        if algorithm == "sha256" and value.rstrip("=") != encode_digest(file.digest):
            yield f"/{path} does not have the recorded hash"
        elif row[2].isdigit() and int(row[2]) != file.size:
            yield f"/{path} has {file.size} bytes, recorded are {row[2]}"


def _is_byte_code_of(path: str, recorded: set[str]) -> bool:
    """A .pyc beside a recorded module: an interpreter may add it, RECORD may leave it out (pip does not)."""
    folder, name = posixpath.split(path)
    if posixpath.basename(folder) != "__pycache__" or not name.endswith(".pyc"):
        return False
    return f"{posixpath.dirname(folder)}/{name.split('.')[0]}.py" in recorded


def _summarise(subject: str, problems: list[str]) -> Iterator[Finding]:
    for problem in problems[:SHOWN]:
        yield _finding("error", subject, problem)
    if len(problems) > SHOWN:
        yield _finding("error", subject, f"and {len(problems) - SHOWN} more files like these")


def _finding(severity: str, subject: str, message: str) -> Finding:
    return Finding(
        "error" if severity == "error" else "warning",
        "record",
        subject,
        message,
        "the image was changed after its wheels were installed; build it again from the lock",
    )
