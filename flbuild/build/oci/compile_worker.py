"""Compiles Python sources to byte-code; runs under the image's interpreter, so it needs only its library.

Reads frames from stdin and writes frames to stdout. A frame is a length (8 bytes, big-endian) and as many
bytes. Two frames ask for a file, its path inside the image and its source; one frame answers, the .pyc, or
nothing for a source that this interpreter cannot compile.
"""

from __future__ import annotations

import importlib.util
import marshal
import sys
import warnings
from typing import IO

UNCHECKED_HASH = (0b01).to_bytes(4, "little")
"""PEP 552: the file names its source by hash, and the interpreter does not check it."""

MARSHAL_VERSION = 2
"""The last without references: later ones mark objects by their reference count, which depends on
what the process compiled before."""


def read(stream: IO[bytes]) -> bytes | None:
    head = stream.read(8)
    return stream.read(int.from_bytes(head, "big")) if len(head) == 8 else None


def byte_code(path: str, source: bytes) -> bytes:
    try:
        code = compile(source, path, "exec", dont_inherit=True, optimize=0)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return b""
    head = importlib.util.MAGIC_NUMBER + UNCHECKED_HASH + importlib.util.source_hash(source)
    return head + marshal.dumps(code, MARSHAL_VERSION)


def main() -> None:
    warnings.simplefilter("ignore")
    sys.setrecursionlimit(10_000)
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    while (path := read(requests)) is not None:
        result = byte_code(path.decode(), read(requests) or b"")
        answers.write(len(result).to_bytes(8, "big") + result)
        answers.flush()


if __name__ == "__main__":
    main()
