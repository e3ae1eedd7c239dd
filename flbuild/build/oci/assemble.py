"""The builder `oci`: a plan to an image, with no daemon, no root and no emulation."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from functools import cache, partial
from pathlib import Path
from typing import Any, Protocol

from flbuild.build.model import Blob, BuiltImage, Inputs
from flbuild.build.oci.cache import LayerCache
from flbuild.build.oci.config import (
    MANIFEST,
    fresh_config,
    history_entry,
    make_config,
    make_manifest,
    oci_media_type,
)
from flbuild.build.oci.conflicts import refuse_layer_conflicts
from flbuild.build.oci.interpreter import base_interpreter
from flbuild.build.oci.layers import LayerMaker, layer_key
from flbuild.errors import BuildError
from flbuild.files import sha256_bytes
from flbuild.lock.model import LockedDebianBase, LockedImageBase
from flbuild.plan.model import Plan, PlannedLayer
from flbuild.progress import Progress


class BaseSource(Protocol):
    """Where bases come from."""

    def debian_layer(self, base: LockedDebianBase) -> Path:
        """The local file of a Debian base's layer, made here if need be."""

    def image_config(self, base: LockedImageBase) -> bytes:
        """The config of a registry base; its layers stay where they are."""


class OciBuilder:
    """The embedded assembler."""

    name = "oci"
    guarantees: tuple[str, ...] = (
        "every input is pinned by hash",
        "the same lock and the same plugin commit give the same digest on any machine",
        "nothing runs inside the image while it is built",
    )

    def __init__(self, cache_dir: Path, bases: BaseSource) -> None:
        self._cache_dir = cache_dir
        self._cache = LayerCache(cache_dir)
        self._bases = bases

    def check(self) -> None:
        """Nothing: it needs no other program."""

    def prepare(self, plan: Plan) -> None:
        """Make or find the base, which is what may have moved since it was locked.

        Raises:
            BaseMovedError: Debian's archive gives other packages now.
        """
        if isinstance(plan.base, LockedDebianBase):
            self._bases.debian_layer(plan.base)

    def build(self, plan: Plan, inputs: Inputs, progress: Progress) -> BuiltImage:
        """Assemble the image.

        Raises:
            BuildError: a wheel cannot be installed, or two of them conflict.
            HostError: byte-code is planned, and this machine cannot run the base's interpreter.
        """
        if plan.base is None or plan.unresolved:
            raise BuildError(f"{plan.name} has unresolved inputs", remedy=f"flbuild lock {plan.name}")
        files = inputs.files()
        interpreter_id = interpreter_of(plan)
        base_config, blobs, reference = self._base(plan, plan.base)
        if any(
            self._cache.find(layer_key(layer, plan.scheme, interpreter_id)) is None for layer in plan.layers
        ):
            refuse_layer_conflicts(plan.layers, files)
        maker = LayerMaker(self._cache, plan.scheme, progress)
        interpreter = None
        if interpreter_id is not None and isinstance(plan.base, LockedDebianBase):
            interpreter = cache(
                partial(
                    base_interpreter,
                    plan.base,
                    self._bases.debian_layer(plan.base),
                    plan.architecture,
                    plan.scheme.python_version,
                    self._cache_dir,
                )
            )
        for layer in plan.layers:
            blobs.append(maker.make(layer, files, interpreter, interpreter_id))
        history = [history_entry(layer, plan.config.created) for layer in plan.layers]
        config = make_config(base_config, plan, blobs, history)
        config_digest = f"sha256:{sha256_bytes(config)}"
        manifest = make_manifest(config, config_digest, blobs)
        return BuiltImage(
            manifest=manifest,
            manifest_digest=f"sha256:{sha256_bytes(manifest)}",
            manifest_media_type=MANIFEST,
            config=config,
            config_digest=config_digest,
            layers=tuple(blobs),
            base_reference=reference,
        )

    def _base(
        self, plan: Plan, base: LockedImageBase | LockedDebianBase
    ) -> tuple[dict[str, Any], list[Blob], str | None]:
        """The base's config, its layers, and the repository that holds those without a local file."""
        if isinstance(base, LockedDebianBase):
            path = self._bases.debian_layer(base)
            layer = base.layer
            blob = Blob(layer.digest, layer.size, layer.media_type, layer.diff_id, path, True)
            config = fresh_config(plan)
            reason = f"Debian {base.suite}, {len(base.packages)} packages"
            made = datetime.fromtimestamp(base.epoch, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
            config["history"] = [{"created": made, "created_by": "flbuild base", "comment": reason}]
            return config, [blob], None
        config = json.loads(self._bases.image_config(base))
        blobs = [
            Blob(layer.digest, layer.size, oci_media_type(layer.media_type), layer.diff_id, None, True)
            for layer in base.layers
        ]
        return config, blobs, base.reference


def interpreter_of(plan: Plan) -> str | None:
    """What decides the byte-code of a plan's layers: the base's Python packages; None for a plan without.

    Other packages of the base come and go with Debian's updates, and layers must not be made anew for them.
    """
    if not plan.scheme.bytecode or not isinstance(plan.base, LockedDebianBase):
        return None
    python = (item for item in plan.base.packages if "python3" in item.name)
    return " ".join(sorted(f"{item.name}={item.version}:{item.architecture}" for item in python))


def cached_size(plan: Plan, layer: PlannedLayer, cache_dir: Path) -> int | None:
    """Compressed bytes of a planned layer that is in the cache already, or None."""
    found = LayerCache(cache_dir).find(layer_key(layer, plan.scheme, interpreter_of(plan)))
    return found.size if found else None
