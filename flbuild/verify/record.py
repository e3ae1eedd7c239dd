"""RECORD files (PEP 376, "Recording installed projects"): rows with the paths they mean inside the image."""

from __future__ import annotations

import csv
import io
import posixpath
from collections.abc import Iterator
from dataclasses import dataclass

from flbuild.build.oci.install import encode_digest
from flbuild.verify.view import File

_WITHOUT_HASH = ("/RECORD", "/RECORD.jws", "/RECORD.p7s", ".pyc")
"""Files that cannot hold their own hash, or that an installer makes later."""


@dataclass(frozen=True)
class Row:
    """One file of a distribution; `digest` is `ALGORITHM=VALUE` or empty, `path` has no leading slash."""

    path: str
    digest: str
    size: str

    def difference(self, file: File) -> str | None:
        """What is wrong with the file, or None."""
        algorithm, _, value = self.digest.partition("=")
        if not algorithm:
            return None if self.path.endswith(_WITHOUT_HASH) else "is recorded without a hash"
        if algorithm != "sha256":
            return f"is recorded with {algorithm}, which is not checked"
        if value.rstrip("=") != encode_digest(file.digest):
            return "does not have the recorded hash"
        if self.size.isdigit() and int(self.size) != file.size:
            return f"has {file.size} bytes, recorded are {self.size}"
        return None


def rows(content: bytes, folder: str) -> Iterator[Row]:
    """The rows of a RECORD whose paths are relative to `folder`; broken rows are left out."""
    for fields in csv.reader(io.StringIO(content.decode("utf-8", errors="replace"))):
        if len(fields) == 3:
            path = posixpath.normpath(posixpath.join("/", folder, fields[0])).lstrip("/")
            yield Row(path, fields[1], fields[2])


def broken_rows(content: bytes) -> list[str]:
    """Rows that are none: not three fields."""
    text = io.StringIO(content.decode("utf-8", errors="replace"))
    return [",".join(fields) for fields in csv.reader(text) if fields and len(fields) != 3]
