from __future__ import annotations

import gzip
import importlib
import io
import types
from typing import Any

import pytest

from flbuild.base.unpack import open_plain
from flbuild.errors import HostError
from flbuild.registry.stream import PieceStream

ZSTD = b"\x28\xb5\x2f\xfd"


def stream(content: bytes) -> PieceStream:
    return PieceStream(iter([content[:3], content[3:]]))


def test_gzip_of_one_member_or_several_is_read() -> None:
    packed = gzip.compress(b"one ") + gzip.compress(b"two")
    assert open_plain(stream(packed)).read() == b"one two"


def test_what_is_not_compressed_is_read_as_it_is() -> None:
    assert open_plain(stream(b"plain tar")).read() == b"plain tar"


def test_an_empty_layer_is_empty() -> None:
    assert open_plain(stream(b"")).read() == b""


def without_zstd(monkeypatch: pytest.MonkeyPatch, **present: Any) -> None:
    real = importlib.import_module

    def find(name: str) -> types.ModuleType:
        if name in ("compression.zstd", "zstandard"):
            if name in present:
                return present[name]
            raise ModuleNotFoundError(name)
        return real(name)

    monkeypatch.setattr(importlib, "import_module", find)


def test_zstd_that_cannot_be_read_says_what_can(monkeypatch: pytest.MonkeyPatch) -> None:
    without_zstd(monkeypatch)
    with pytest.raises(HostError, match="pip install zstandard"):
        open_plain(stream(ZSTD + b"rest"))


def test_zstd_is_read_with_the_package_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Decompressor:
        def stream_reader(self, source: io.BufferedIOBase, *, read_across_frames: bool) -> io.BytesIO:
            assert read_across_frames
            return io.BytesIO(source.read().removeprefix(ZSTD).upper())

    without_zstd(monkeypatch, zstandard=types.SimpleNamespace(ZstdDecompressor=Decompressor))
    assert open_plain(stream(ZSTD + b"layer")).read() == b"LAYER"
