"""What is installed comes from the locked wheels: their own RECORD against the files in the image."""

from __future__ import annotations

import csv
import io
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

from flbuild.build.oci.install import encode_digest
from flbuild.finding import Finding
from flbuild.verify.context import Expected, Verification


def wheels(verification: Verification) -> Iterator[Finding]:
    """Compare every wheel that is on this machine; the store holds none whose hash is not the locked one.

    RECORD inside the image only proves that the image agrees with itself; this binds it to the lock.
    """
    absent = []
    for item in verification.expected:
        path = verification.find_wheel(item.sha256, item.filename)
        if path is None:
            absent.append(item.name)
            continue
        problems = list(_differences(verification, item, path))
        for problem in problems[:3]:
            yield _error(item.name, problem)
        if len(problems) > 3:
            yield _error(item.name, f"and {len(problems) - 3} more differences")
    if absent:
        shown = ", ".join(absent[:5]) + (f" and {len(absent) - 5} more" if len(absent) > 5 else "")
        yield Finding(
            "warning",
            "wheels",
            f"{len(absent)} of {len(verification.expected)}",
            f"not compared, their wheels are not on this machine: {shown}",
            "run with --fetch to get the locked wheels and compare them",
        )


def _differences(verification: Verification, item: Expected, path: Path) -> Iterator[str]:
    root = verification.site_packages
    with ZipFile(path) as archive:
        names = archive.namelist()
        # One level deep: a wheel may carry other distributions inside itself.
        (name,) = (path for path in names if re.fullmatch(r"[^/]+\.dist-info/RECORD", path))
        rows = list(csv.reader(io.StringIO(archive.read(name).decode("utf-8"))))
    info = posixpath.dirname(name)
    for row in rows:
        # What a wheel keeps below .data is moved, and scripts get another first line.
        if not row or not row[1] or row[0] == name or row[0].split("/", 1)[0].endswith(".data"):
            continue
        if "__pycache__" in row[0].split("/"):
            continue
        target = posixpath.normpath(posixpath.join(root, row[0]))
        file = verification.view.get(target)
        if file is None:
            yield f"/{target} of {item.filename} is missing"
        elif row[1].startswith("sha256=") and row[1][7:].rstrip("=") != encode_digest(file.digest):
            yield f"/{target} is not the file in {item.filename}"
    if f"{root}/{info}/METADATA" not in verification.view.files:
        yield f"/{root}/{info} is missing"


def _error(name: str, message: str) -> Finding:
    return Finding("error", "wheels", name, message, "build the image again from the lock")
