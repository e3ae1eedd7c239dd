"""The files of one layer, before they are a tar: where each goes, with which mode, and from where."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from zipfile import ZipFile


@dataclass(frozen=True)
class Content:
    """The bytes of a file: held here, or still inside a wheel if they are many. `digest` is their SHA-256."""

    size: int
    digest: bytes
    data: bytes | None = None
    wheel: Path | None = None
    member: str = ""

    @classmethod
    def of(cls, data: bytes) -> Content:
        """Bytes held in memory."""
        return cls(len(data), hashlib.sha256(data).digest(), data)

    def open(self, archives: Mapping[Path, ZipFile]) -> IO[bytes]:
        """A stream of the bytes; `archives` holds the wheels, open."""
        if self.wheel is None:
            return io.BytesIO(self.data or b"")
        return archives[self.wheel].open(self.member)


@dataclass(frozen=True)
class Entry:
    """A file of the layer; its path has no leading slash, as in a tar. `owner` is a distribution's name."""

    path: str
    content: Content
    mode: int
    owner: str
