"""The tar inside a layer, whatever it is compressed with."""

from __future__ import annotations

import gzip
import importlib
import io
from typing import IO, Any, cast

from flbuild.errors import HostError

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"


def open_plain(stream: io.RawIOBase) -> IO[bytes]:
    """The uncompressed bytes of a layer, by its first bytes: registries label layers wrongly at times.

    Raises:
        HostError: it is compressed with zstd, and this Python has nothing to read that.
    """
    buffered = io.BufferedReader(stream, 1 << 20)
    start = buffered.peek(4)[:4]
    if start.startswith(_GZIP):
        return cast("IO[bytes]", gzip.GzipFile(fileobj=buffered))
    if start == _ZSTD:
        return _open_zstd(buffered)
    return buffered


def _open_zstd(stream: IO[bytes]) -> IO[bytes]:
    for name, call in (("compression.zstd", _standard), ("zstandard", _package)):
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError:
            continue
        return cast("IO[bytes]", call(module, stream))
    raise HostError(
        "a layer is compressed with zstd, which this Python cannot read",
        cause="Python can from 3.14 on, earlier ones with the package zstandard",
        remedy="pip install zstandard, beside flbuild",
    )


def _standard(module: Any, stream: IO[bytes]) -> Any:
    return module.ZstdFile(stream)


def _package(module: Any, stream: IO[bytes]) -> Any:
    return module.ZstdDecompressor().stream_reader(stream, read_across_frames=True)
