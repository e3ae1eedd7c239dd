"""Bytes that come in pieces, as a file to read."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any


class PieceStream(io.RawIOBase):
    """A readable stream over pieces of bytes."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._held = memoryview(b"")

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, target: Any) -> int:
        """Fill `target` with at most its length; 0 at the end."""
        while not self._held:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._held = memoryview(piece)
        count = min(len(target), len(self._held))
        target[:count] = self._held[:count]
        self._held = self._held[count:]
        return count

    def drain(self) -> None:
        """Read to the end."""
        self._held = memoryview(b"")
        for _ in self._pieces:
            pass
