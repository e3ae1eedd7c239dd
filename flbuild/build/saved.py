"""From an image as engines export it (`docker save`, docker-archive) to layers, config and manifest."""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from tempfile import TemporaryFile
from typing import IO, cast

from flbuild.build.model import Blob, BuiltImage
from flbuild.build.oci.cache import MEDIA_TYPE, CachedLayer, LayerCache
from flbuild.build.oci.config import MANIFEST, built_config, make_manifest, oci_media_type
from flbuild.errors import BuildError
from flbuild.files import CHUNK, sha256_bytes
from flbuild.lock.model import LockedImageBase, LockedLayer
from flbuild.plan.model import Plan

_SMALL = 4 << 20
"""Bytes up to which a member may be a document; a config or a manifest is far smaller."""


@dataclass
class _Members:
    documents: dict[str, bytes] = field(default_factory=dict)
    layers: dict[str, CachedLayer] = field(default_factory=dict)


def read_saved(stream: IO[bytes], plan: Plan, cache: LayerCache) -> BuiltImage:
    """The image in an archive, which is read once from its start to its end.

    Layers of a registry base are those of its registry, by diff_id; the others are compressed into the cache
    as the assembler's are, so equal files that are dated equally give equal layers.

    Raises:
        BuildError: the archive lacks something, or the image does not stand on the locked base.
    """
    base = (
        {layer.diff_id: layer for layer in plan.base.layers} if isinstance(plan.base, LockedImageBase) else {}
    )
    try:
        members = _read(stream, base, cache)
        (image,) = json.loads(members.documents["manifest.json"])
        config = built_config(json.loads(members.documents[image["Config"]]), plan)
        diff_ids = json.loads(config)["rootfs"]["diff_ids"]
    except (tarfile.TarError, ValueError, KeyError, TypeError) as error:
        raise BuildError("the exported image cannot be read", cause=repr(error)) from error
    if list(base) != diff_ids[: len(base)]:
        raise BuildError(
            f"{plan.name} was not built on the locked base: its first layers are others",
            cause="another image had the name of the base where it was built",
            remedy="remove that image from the engine, and build again",
        )
    blobs = [
        _of_base(base[diff_id]) if diff_id in base else _made(members.layers, diff_id, cache)
        for diff_id in diff_ids
    ]
    digest = f"sha256:{sha256_bytes(config)}"
    manifest = make_manifest(config, digest, blobs)
    return BuiltImage(
        manifest=manifest,
        manifest_digest=f"sha256:{sha256_bytes(manifest)}",
        manifest_media_type=MANIFEST,
        config=config,
        config_digest=digest,
        layers=tuple(blobs),
        base_reference=plan.base.reference if isinstance(plan.base, LockedImageBase) else None,
    )


def _read(stream: IO[bytes], base: Mapping[str, LockedLayer], cache: LayerCache) -> _Members:
    found = _Members()
    with tarfile.open(fileobj=stream, mode="r|", bufsize=CHUNK) as tar:
        for member in tar:
            # Links stand for layers that are there under another name.
            if not member.isfile():
                continue
            source = cast("IO[bytes]", tar.extractfile(member))
            if member.size <= _SMALL:
                content = source.read()
                if content.lstrip()[:1] in (b"{", b"["):
                    found.documents[member.name] = content
                    continue
            if member.size < tarfile.BLOCKSIZE:
                continue
            with TemporaryFile() as spool:
                if member.size <= _SMALL:
                    spool.write(content)
                else:
                    shutil.copyfileobj(source, spool, CHUNK)
                _keep(spool, base, cache, found)
    return found


def _keep(spool: IO[bytes], base: Mapping[str, LockedLayer], cache: LayerCache, found: _Members) -> None:
    """Compress a layer into the cache, unless it is there or is the base's."""
    spool.seek(0)
    packed = spool.read(2) == b"\x1f\x8b"
    spool.seek(0)
    plain = cast("IO[bytes]", gzip.GzipFile(fileobj=spool)) if packed else spool
    digest = hashlib.sha256()
    while piece := plain.read(CHUNK):
        digest.update(piece)
    diff_id = f"sha256:{digest.hexdigest()}"
    if diff_id in base:
        return

    def write(target: IO[bytes]) -> None:
        plain.seek(0)
        shutil.copyfileobj(plain, target, CHUNK)

    key = f"built-{digest.hexdigest()}"
    found.layers[diff_id] = cache.find(key) or cache.make(key, write)


def _of_base(layer: LockedLayer) -> Blob:
    return Blob(layer.digest, layer.size, oci_media_type(layer.media_type), layer.diff_id, None, True)


def _made(layers: Mapping[str, CachedLayer], diff_id: str, cache: LayerCache) -> Blob:
    layer = layers.get(diff_id)
    if layer is None:
        raise BuildError(f"the exported image lacks its layer {diff_id}")
    return Blob(layer.digest, layer.size, MEDIA_TYPE, diff_id, cache.path(layer.digest), False)
