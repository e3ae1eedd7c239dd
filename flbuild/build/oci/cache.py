"""The layer cache: files by digest, found by a key of everything that decides their bytes."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, BinaryIO

from flbuild.build.oci.compress import Compressed, compress
from flbuild.errors import HostError
from flbuild.files import is_sealed, seal, sha256_file, unnamed_file, write_atomic

MEDIA_TYPE = "application/vnd.oci.image.layer.v1.tar+gzip"


@dataclass(frozen=True)
class CachedLayer:
    """A layer in the cache, and how large it is when unpacked."""

    digest: str
    size: int
    diff_id: str
    diff_size: int


class LayerCache:
    """Layer files by digest below the cache folder, with a note per key.

    A note is written after its file has its final name, so a killed process leaves an unused file at most.
    """

    def __init__(self, cache_dir: Path) -> None:
        self._notes = cache_dir / "layers"
        self._blobs = cache_dir / "blobs" / "sha256"

    def path(self, digest: str) -> Path:
        """Where the file of a digest is, or would be."""
        return self._blobs / digest.removeprefix("sha256:")

    def verified(self, digest: str, size: int) -> Path | None:
        """The file of a digest, or None; read again only if somebody may have written to it."""
        path = self.path(digest)
        sha256 = digest.removeprefix("sha256:")
        try:
            if path.stat().st_size != size:
                return None
            if not is_sealed(path, sha256):
                if sha256_file(path) != sha256:
                    path.unlink()
                    return None
                seal(path, sha256)
        except FileNotFoundError:
            return None
        return path

    def find(self, key: str) -> CachedLayer | None:
        """The layer noted under `key`, if its file is there and whole."""
        try:
            layer = CachedLayer(**json.loads((self._notes / f"{key}.json").read_text()))
        except (OSError, ValueError, TypeError):
            return None
        return layer if self.verified(layer.digest, layer.size) else None

    def make(self, key: str, write: Callable[[IO[bytes]], None]) -> CachedLayer:
        """Compress what `write` writes, and note it under `key`.

        Raises:
            HostError: the file cannot be written, for example because the disk is full.
        """
        try:
            done = self._write(write)
        except OSError as error:
            raise HostError(
                f"a layer could not be written to {self._blobs}",
                cause=str(error),
                remedy="make room, or set FLBUILD_CACHE_DIR to a larger disk",
            ) from error
        layer = CachedLayer(done.digest, done.size, done.diff_id, done.diff_size)
        write_atomic(self._notes / f"{key}.json", json.dumps(asdict(layer)))
        return layer

    def _write(self, write: Callable[[IO[bytes]], None]) -> Compressed:
        with unnamed_file(self._blobs) as (target, temporary):
            done = _compress_written(write, target)
            target.flush()
            os.fsync(target.fileno())
            temporary.chmod(0o444)
            seal(temporary, done.digest.removeprefix("sha256:"))
            temporary.replace(self.path(done.digest))
        return done


def _compress_written(write: Callable[[IO[bytes]], None], target: BinaryIO) -> Compressed:
    """Run `write` against a pipe whose other end is compressed: a tar of gigabytes is never stored."""
    reading, writing = os.pipe()
    failure: list[BaseException] = []

    def produce() -> None:
        try:
            with os.fdopen(writing, "wb") as stream:
                write(stream)
        except BaseException as error:  # carried to the caller's thread
            failure.append(error)

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        with os.fdopen(reading, "rb") as source:
            done = compress(source, target)
    finally:
        thread.join()
    if failure:
        raise failure[0]
    return done
