"""The image under verification: raw manifest and config, and layers opened only when a check needs them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol, cast

from flbuild.build.oci.layout import read_layout
from flbuild.errors import UsageError
from flbuild.registry.client import RegistryClient
from flbuild.registry.reference import Reference
from flbuild.registry.stream import PieceStream

LAYOUT_PREFIX = "oci:"


@dataclass(frozen=True)
class LayerRef:
    """A layer as the manifest lists it; `diff_id` is what the config says it unpacks to."""

    digest: str
    size: int
    media_type: str
    diff_id: str


class Opener(Protocol):
    """Opens the compressed bytes of a layer."""

    def __call__(self, digest: str) -> AbstractContextManager[IO[bytes]]: ...


@dataclass(frozen=True)
class Subject:
    """An image from anywhere. `top_digest` is what the reference named: the image, or the index around it."""

    name: str
    top_digest: str
    top_kind: str
    manifest: bytes
    manifest_digest: str
    media_type: str
    config: bytes
    open_layer: Opener
    is_local: bool

    @property
    def content(self) -> dict[str, Any]:
        """The parsed manifest."""
        return cast("dict[str, Any]", json.loads(self.manifest))

    @property
    def settings(self) -> dict[str, Any]:
        """The parsed config."""
        return cast("dict[str, Any]", json.loads(self.config))

    @property
    def labels(self) -> dict[str, str]:
        """The labels in the config."""
        return dict((self.settings.get("config") or {}).get("Labels") or {})

    @property
    def env(self) -> dict[str, str]:
        """The environment in the config."""
        items = (self.settings.get("config") or {}).get("Env") or ()
        return dict(item.partition("=")[::2] for item in items)

    @property
    def layers(self) -> tuple[LayerRef, ...]:
        """Layers with their diff_ids; a config with fewer of them leaves the rest empty."""
        diff_ids = list(self.settings.get("rootfs", {}).get("diff_ids", ()))
        layers = self.content.get("layers", ())
        diff_ids += [""] * (len(layers) - len(diff_ids))
        return tuple(
            LayerRef(layer["digest"], layer["size"], layer["mediaType"], diff_id)
            for layer, diff_id in zip(layers, diff_ids, strict=False)
        )


def open_subject(text: str, client: RegistryClient, platform: str | None = None) -> Subject:
    """The image that `text` names: `oci:FOLDER`, or a reference.

    Args:
        platform: which image of an index; needed only if it is one.

    Raises:
        FlbuildError: by class, why it cannot be read.
    """
    if text.startswith(LAYOUT_PREFIX):
        return _from_layout(text)
    return _from_registry(Reference.parse(text), client, platform or "linux/amd64")


def _from_layout(text: str) -> Subject:
    folder = Path(text.removeprefix(LAYOUT_PREFIX).partition("@")[0])
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder", remedy=f"flbuild image NAME --output oci:{folder}")
    image = read_layout(folder)

    @contextmanager
    def open_layer(digest: str) -> Iterator[IO[bytes]]:
        with (folder / "blobs" / "sha256" / digest.removeprefix("sha256:")).open("rb") as stream:
            yield stream

    return Subject(
        name=text,
        top_digest=image.manifest_digest,
        top_kind="image",
        manifest=image.manifest,
        manifest_digest=image.manifest_digest,
        media_type=image.manifest_media_type,
        config=image.config,
        open_layer=open_layer,
        is_local=True,
    )


def _from_registry(reference: Reference, client: RegistryClient, platform: str) -> Subject:
    top, image = client.image_manifest(reference, platform)

    @contextmanager
    def open_layer(digest: str) -> Iterator[IO[bytes]]:
        stream = PieceStream(client.stream_blob(reference, digest))
        yield cast("IO[bytes]", stream)
        stream.drain()

    return Subject(
        name=str(reference),
        top_digest=top.digest,
        top_kind=top.kind,
        manifest=image.raw,
        manifest_digest=image.digest,
        media_type=image.media_type,
        config=client.blob(reference, str(image.content["config"]["digest"])),
        open_layer=open_layer,
        is_local=False,
    )
