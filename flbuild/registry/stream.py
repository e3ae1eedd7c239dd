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
        """Fill `target`, or what is left of it at the end; 0 behind the end."""
        filled = 0
        while filled < len(target):
            if not self._held:
                piece = next(self._pieces, None)
                if piece is None:
                    break
                self._held = memoryview(piece)
                continue
            count = min(len(target) - filled, len(self._held))
            target[filled : filled + count] = self._held[:count]
            self._held = self._held[count:]
            filled += count
        return filled

    def drain(self) -> None:
        """Read to the end."""
        self._held = memoryview(b"")
        for _ in self._pieces:
            pass
