"""A registry base: located by tag, pinned by digest, its layers read once for the inventory."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from typing import IO, Any, cast

from flbuild.base.inventory import Inventory
from flbuild.base.tree import Tree
from flbuild.errors import HostError, RecipeError, UnreachableError
from flbuild.files import sha256_bytes, write_atomic
from flbuild.lock.model import LockedImageBase, LockedLayer
from flbuild.progress import Progress
from flbuild.recipe.model import ImageBase
from flbuild.registry.client import RegistryClient
from flbuild.registry.reference import Reference
from flbuild.registry.stream import PieceStream
from flbuild.settings import Settings


class ImageBases:
    """Looks at registry bases. Their layers are streamed through, never stored."""

    def __init__(self, settings: Settings, progress: Progress, client: RegistryClient | None = None) -> None:
        self._client = client or RegistryClient(settings, progress)
        self._configs = settings.cache_dir / "configs"
        self._progress = progress

    def lock(self, base: ImageBase, platform: str) -> LockedImageBase:
        """What the tag names now, with the inventory of its layers.

        Raises:
            RecipeError: the image is of another platform.
            RemoteGoneError, RemoteRefusedError, UnreachableError: by class, what the registry said.
        """
        reference = Reference.parse(base.image)
        top, image = self._client.image_manifest(reference, platform)
        config_digest = str(image.content["config"]["digest"])
        config = json.loads(self._client.blob(reference, config_digest))
        _require_platform(reference, config, platform)
        layers = _layers(image.content, config)
        inventory = self._inventory(reference, layers)
        return LockedImageBase(
            reference=str(reference),
            digest=top.digest,
            digest_kind=cast("Any", top.kind),
            manifest=image.digest,
            media_type=image.media_type,
            config=config_digest,
            layers=layers,
            inventory=inventory.distributions(),
            glibc=inventory.glibc,
        )

    def relist(self, base: LockedImageBase, platform: str) -> LockedImageBase:
        """The same base, by digest, with the file lists of everything it carries."""
        inventory = self._inventory(Reference.parse(base.reference), base.layers)
        return base.model_copy(update={"inventory": inventory.distributions()})

    def config(self, base: LockedImageBase) -> bytes:
        """The base's config, from the cache or its registry."""
        path = self._configs / f"{base.config.removeprefix('sha256:')}.json"
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            content = b""
        if f"sha256:{sha256_bytes(content)}" != base.config:
            content = self._client.blob(Reference.parse(base.reference), base.config)
            write_atomic(path, content)
        return content

    def _inventory(self, reference: Reference, layers: Sequence[LockedLayer]) -> Inventory:
        tree = Tree()
        for number, layer in enumerate(layers, 1):
            label = f"read layer {number}/{len(layers)} of {reference}"
            with self._progress.task(label, layer.size) as task:
                pieces = self._client.stream_blob(reference, layer.digest)
                stream = PieceStream(_counted(pieces, task.advance))
                try:
                    with _plain(stream, layer.media_type) as plain:
                        tree.apply(plain)
                    # The rest, behind the end of the tar, completes the digest.
                    stream.drain()
                except (tarfile.TarError, zlib.error, gzip.BadGzipFile, EOFError) as error:
                    raise UnreachableError(
                        f"layer {layer.digest} of {reference} cannot be read", cause=str(error)
                    ) from error
        return Inventory(tree)


def _plain(stream: PieceStream, media_type: str) -> IO[bytes]:
    """The tar inside a layer, by what its first bytes are; registries label layers wrongly at times."""
    buffered = io.BufferedReader(stream, 1 << 20)
    start = buffered.peek(4)[:4]
    if start.startswith(b"\x1f\x8b"):
        return cast("IO[bytes]", gzip.GzipFile(fileobj=buffered))
    if start == b"\x28\xb5\x2f\xfd":
        raise HostError(
            f"a layer of type {media_type} is compressed with zstd, which flbuild cannot read yet",
            cause="the inventory of the base needs the content of its layers",
            remedy="use a tag of the base with gzip layers",
        )
    return buffered


def _counted(pieces: Iterator[bytes], count: Any) -> Iterator[bytes]:
    for piece in pieces:
        count(len(piece))
        yield piece


def _layers(manifest: dict[str, Any], config: dict[str, Any]) -> tuple[LockedLayer, ...]:
    diff_ids = config["rootfs"]["diff_ids"]
    return tuple(
        LockedLayer(
            digest=layer["digest"], size=layer["size"], media_type=layer["mediaType"], diff_id=diff_id
        )
        for layer, diff_id in zip(manifest["layers"], diff_ids, strict=True)
    )


def _require_platform(reference: Reference, config: dict[str, Any], platform: str) -> None:
    found = f"{config.get('os')}/{config.get('architecture')}"
    if found != platform:
        raise RecipeError(
            f"the base {reference} is for {found}, the recipe for {platform}",
            cause="the tag names a single image of another platform",
            remedy="name an image for that platform, or correct the recipe's platform",
        )
