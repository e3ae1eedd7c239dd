"""Layers, built once: the cache knows one by everything that decides its bytes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from flbuild.build.model import Blob
from flbuild.build.oci.bytecode import BYTECODE_FORMAT, compile_entries
from flbuild.build.oci.cache import MEDIA_TYPE, LayerCache
from flbuild.build.oci.compress import FORMAT
from flbuild.build.oci.contents import wheel_entries
from flbuild.build.oci.entries import Entry
from flbuild.build.oci.interpreter import Interpreter
from flbuild.build.oci.tar import write_wheels, write_whiteouts
from flbuild.files import sha256_bytes
from flbuild.plan.model import InstallScheme, PlannedLayer
from flbuild.progress import Progress

LAYER_FORMAT = "1"
"""Raised when this package writes other bytes for the same input."""


def layer_key(layer: PlannedLayer, scheme: InstallScheme, interpreter_id: str | None) -> str:
    """A hash of everything that decides a layer's bytes, as hexadecimal."""
    decisive = {
        "format": [LAYER_FORMAT, FORMAT, BYTECODE_FORMAT if interpreter_id else None],
        "interpreter": interpreter_id,
        "scheme": asdict(scheme),
        "wheels": sorted(
            [wheel.name, wheel.filename, wheel.sha256, wheel.requested] for wheel in layer.wheels
        ),
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
        def compiled(entries: Sequence[Entry]) -> dict[str, Entry]:
            if interpreter is None:
                return {}
            with self._progress.task(f"compile {layer.id}", unit="items") as task:
                return compile_entries(entries, interpreter(), self._scheme, task)

        return wheel_entries(layer.wheels, files, self._scheme, compiled)
