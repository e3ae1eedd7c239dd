"""Layers, built once: the cache knows one by everything that decides its bytes."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, BinaryIO

from flbuild.build.model import Blob
from flbuild.build.oci.bytecode import BYTECODE_FORMAT, compile_entries
from flbuild.build.oci.compress import FORMAT, Compressed, compress
from flbuild.build.oci.conflicts import refuse_conflicts
from flbuild.build.oci.entries import Entry
from flbuild.build.oci.install import install_wheel, record
from flbuild.build.oci.interpreter import Interpreter
from flbuild.build.oci.tar import write_wheels, write_whiteouts
from flbuild.errors import BuildError
from flbuild.files import sha256_bytes, unnamed_file, write_atomic
from flbuild.plan.model import InstallScheme, PlannedLayer
from flbuild.progress import Progress

LAYER_FORMAT = "1"
"""Raised when this package writes other bytes for the same input."""

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

    def find(self, key: str) -> CachedLayer | None:
        """The layer noted under `key`, if its file is there and has its size."""
        try:
            layer = CachedLayer(**json.loads((self._notes / f"{key}.json").read_text()))
            if self.path(layer.digest).stat().st_size != layer.size:
                return None
        except (OSError, ValueError, TypeError):
            return None
        return layer

    def make(self, key: str, write: Callable[[IO[bytes]], None]) -> CachedLayer:
        """Compress what `write` writes, and note it under `key`."""
        with unnamed_file(self._blobs) as (target, temporary):
            done = _compress_written(write, target)
            target.flush()
            os.fsync(target.fileno())
            temporary.chmod(0o644)
            temporary.replace(self.path(done.digest))
        layer = CachedLayer(done.digest, done.size, done.diff_id, done.diff_size)
        write_atomic(self._notes / f"{key}.json", json.dumps(asdict(layer)))
        return layer


def layer_key(layer: PlannedLayer, scheme: InstallScheme, interpreter_id: str | None) -> str:
    """A hash of everything that decides a layer's bytes, as hexadecimal."""
    decisive = {
        "format": [LAYER_FORMAT, FORMAT, BYTECODE_FORMAT if interpreter_id else None],
        "interpreter": interpreter_id,
        "scheme": asdict(scheme),
        "wheels": sorted([wheel.name, wheel.filename, wheel.sha256] for wheel in layer.wheels),
        "whiteouts": sorted(layer.whiteouts),
    }
    return sha256_bytes(json.dumps(decisive, sort_keys=True).encode())


class LayerMaker:
    """Turns planned layers into blobs, through the cache."""

    def __init__(self, cache: LayerCache, scheme: InstallScheme, progress: Progress) -> None:
        self._cache = cache
        self._scheme = scheme
        self._progress = progress

    def make(
        self,
        layer: PlannedLayer,
        files: Mapping[str, Path],
        interpreter: Callable[[], Interpreter] | None,
        interpreter_id: str | None,
    ) -> Blob:
        """The blob of one planned layer.

        Args:
            files: every wheel's file by SHA-256.
            interpreter: gives the interpreter for byte-code, None for a layer without.
            interpreter_id: what decides the interpreter's output.
        """
        key = layer_key(layer, self._scheme, interpreter_id)
        found = self._cache.find(key)
        if found is None:
            with self._progress.task(f"layer {layer.id}") as task:
                if layer.kind == "remove":
                    found = self._cache.make(key, lambda stream: write_whiteouts(stream, layer.whiteouts))
                else:
                    entries = self._entries(layer, files, interpreter)
                    found = self._cache.make(key, lambda stream: write_wheels(stream, entries, self._scheme))
                task.advance(found.size)
        return Blob(
            found.digest, found.size, MEDIA_TYPE, found.diff_id, self._cache.path(found.digest), False
        )

    def _entries(
        self,
        layer: PlannedLayer,
        files: Mapping[str, Path],
        interpreter: Callable[[], Interpreter] | None,
    ) -> Sequence[Entry]:
        entries: list[Entry] = []
        records: list[tuple[str, str]] = []
        for wheel in sorted(layer.wheels, key=lambda wheel: wheel.name):
            if wheel.sha256 is None:
                raise BuildError(f"{wheel.name} {wheel.version} has no locked file")
            installed, record_path = install_wheel(wheel, files[wheel.sha256], self._scheme)
            entries += installed
            records.append((record_path, wheel.name))
        entries = refuse_conflicts(entries)
        if interpreter is not None:
            with self._progress.task(f"compile {layer.id}", unit="items") as task:
                entries += compile_entries(entries, interpreter(), self._scheme, task)
        owned: dict[str, list[Entry]] = {owner: [] for _, owner in records}
        for entry in entries:
            owned[entry.owner].append(entry)
        return [*entries, *(record(path, owned[owner], self._scheme, owner) for path, owner in records)]


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
