"""A registry base: located by tag, pinned by digest, its layers read once for the inventory."""

from __future__ import annotations

import gzip
import json
import tarfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

from flbuild.base.inventory import Inventory
from flbuild.base.layer import FORMAT, LayerFacts, read_layer
from flbuild.base.tree import Tree
from flbuild.base.unpack import open_plain
from flbuild.errors import RecipeError, RemoteMovedError
from flbuild.files import sha256_bytes, write_atomic
from flbuild.lock.model import LockedImageBase, LockedLayer
from flbuild.progress import Progress
from flbuild.recipe.model import ImageBase
from flbuild.registry.client import RegistryClient
from flbuild.registry.reference import Reference
from flbuild.registry.stream import PieceStream
from flbuild.settings import Settings


class ImageBases:
    """Looks at registry bases. Their layers are streamed through, never stored; what they say is noted."""

    def __init__(self, settings: Settings, progress: Progress, client: RegistryClient | None = None) -> None:
        self._client = client or RegistryClient(settings, progress)
        self._configs = settings.cache_dir / "configs"
        self._notes = settings.cache_dir / "inventories"
        self._progress = progress

    def lock(self, base: ImageBase, platform: str) -> LockedImageBase:
        """What the tag names now, with the inventory of its layers.

        Raises:
            RecipeError: it is no image, or one of another platform.
            RemoteGoneError, RemoteRefusedError, UnreachableError: by class, what the registry said.
        """
        reference = Reference.parse(base.image)
        top, image = self._client.image_manifest(reference, platform)
        try:
            config_digest = str(image.content["config"]["digest"])
            config = json.loads(self._client.blob(reference, config_digest))
            _require_platform(reference, config, platform)
            layers = _layers(image.content, config)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise RecipeError(
                f"{reference} is no container image",
                cause=f"manifest {image.digest} or its config is of another kind",
                remedy="name an image as the base",
            ) from error
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
            tree.apply(self._facts(reference, layer, f"read layer {number}/{len(layers)} of {reference}"))
        return Inventory(tree)

    def _facts(self, reference: Reference, layer: LockedLayer, label: str) -> LayerFacts:
        """What a layer says, from its note or from its registry; a digest says the same for ever."""
        note = self._notes / f"{FORMAT}-{layer.digest.removeprefix('sha256:')}.json.gz"
        try:
            return LayerFacts.unpack(note.read_bytes())
        except (OSError, EOFError, ValueError, KeyError, TypeError, zlib.error):
            # No note, or a damaged one.
            pass
        with self._progress.task(label, layer.size) as task:
            facts = self._read(reference, layer, task.advance)
        write_atomic(note, facts.pack())
        return facts

    def _read(self, reference: Reference, layer: LockedLayer, count: Callable[[int], None]) -> LayerFacts:
        stream = PieceStream(_counted(self._client.stream_blob(reference, layer.digest), count))
        try:
            with open_plain(stream) as plain:
                facts = read_layer(plain)
            # What is behind the end of the tar completes the digest.
            stream.drain()
        except (tarfile.TarError, zlib.error, gzip.BadGzipFile, EOFError) as error:
            raise RemoteMovedError(
                f"layer {layer.digest} of {reference} is no tar that can be read",
                cause=f"{error}; its type is {layer.media_type}",
                remedy="use another tag of the base",
            ) from error
        return facts


def _counted(pieces: Iterator[bytes], count: Callable[[int], None]) -> Iterator[bytes]:
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
    found = f"{config['os']}/{config['architecture']}"
    if found != platform:
        raise RecipeError(
            f"the base {reference} is for {found}, the recipe for {platform}",
            cause="the tag names a single image of another platform",
            remedy="name an image for that platform, or correct the recipe's platform",
        )
