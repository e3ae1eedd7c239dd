"""What is installed comes from the locked wheels: their own RECORD against the files in the image."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

from flbuild.finding import Finding
from flbuild.verify.context import Expected, Installed, Verification
from flbuild.verify.record import Row, rows

SHOWN = 3
_RECORD = re.compile(r"[^/]+\.dist-info/RECORD")
"""One level deep: a wheel may carry other distributions inside itself."""

_OF_THE_INSTALLER = frozenset({"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"})


def wheels(verification: Verification) -> Iterator[Finding]:
    """Compare every wheel that is on this machine; the store holds none whose hash is not the locked one.

    RECORD inside the image only proves that the image agrees with itself; this binds it to the lock.
    """
    absent = []
    installed = {item.name: item for item in verification.installed if not item.from_base}
    for expected in verification.expected:
        path = verification.find_wheel(expected.sha256, expected.filename)
        item = installed.get(expected.name)
        if path is None:
            absent.append(expected.name)
        elif item is not None:
            yield from _summarise(expected, list(_differences(verification, expected, item, path)))
    if absent:
        shown = ", ".join(absent[:5]) + (f" and {len(absent) - 5} more" if len(absent) > 5 else "")
        yield Finding(
            "warning",
            "wheels",
            f"{len(absent)} of {len(verification.expected)}",
            f"not compared, their wheels are not on this machine: {shown}",
            "run with --fetch to get the locked wheels and compare them",
        )


def _differences(
    verification: Verification, expected: Expected, item: Installed, path: Path
) -> Iterator[str]:
    root = verification.site_packages
    with ZipFile(path) as archive:
        (name,) = (member for member in archive.namelist() if _RECORD.fullmatch(member))
        wheel = {row.path: row for row in _placed(rows(archive.read(name), root), root)}
    for row in wheel.values():
        if row.path.endswith("/RECORD") or "/__pycache__/" in row.path:
            continue
        file = verification.view.get(row.path)
        if file is None:
            yield f"/{row.path} of {expected.filename} is missing"
        elif row.difference(file) is not None:
            yield f"/{row.path} is not the file in {expected.filename}"
    content = verification.view.contents.get(f"{item.info}/RECORD", b"")
    for row in rows(content, posixpath.dirname(item.info)):
        if row.path not in wheel and not _is_made_here(row.path, item, root):
            yield f"/{row.path} is recorded, and {expected.filename} has no such file"


def _placed(listed: Iterator[Row], root: str) -> Iterator[Row]:
    """Rows at the places of installed files; what goes below other folders than site-packages is left out."""
    for row in listed:
        inside = row.path.removeprefix(f"{root}/").split("/")
        if not inside[0].endswith(".data"):
            yield row
        elif inside[1] in ("purelib", "platlib"):
            yield Row(f"{root}/{'/'.join(inside[2:])}", row.digest, row.size)


def _is_made_here(path: str, item: Installed, root: str) -> bool:
    """Whether an installer, not the wheel, makes a file: its own notes, byte-code, scripts."""
    if posixpath.dirname(path) == item.info:
        return posixpath.basename(path) in _OF_THE_INSTALLER
    return "/__pycache__/" in path or not path.startswith(f"{root}/")


def _summarise(expected: Expected, problems: list[str]) -> Iterator[Finding]:
    for problem in problems[:SHOWN]:
        yield _error(expected.name, problem)
    if len(problems) > SHOWN:
        yield _error(expected.name, f"and {len(problems) - SHOWN} more differences")


def _error(name: str, message: str) -> Finding:
    return Finding("error", "wheels", name, message, "build the image again from the lock")
