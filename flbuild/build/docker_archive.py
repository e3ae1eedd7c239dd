"""The docker-archive form of an image, for engines that read no OCI layout (20.10 of Debian 12)."""

from __future__ import annotations

import tarfile
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import requests
from docker.errors import DockerException

from flbuild.build.engine import connect, engine_error
from flbuild.build.model import Blob, BuiltImage
from flbuild.build.oci.config import canonical_json
from flbuild.errors import BuildError, HostError
from flbuild.files import CHUNK, atomic_writer

LOAD_SECONDS = 1800

Fetch = Callable[[Blob, Path], None]
"""Writes a layer that has no local file to a path."""


def write_archive(image: BuiltImage, path: Path, reference: str, fetch: Fetch) -> None:
    """Write what `docker save` would have written.

    Args:
        reference: repository:tag, the name the image gets.

    Raises:
        HostError: the file cannot be written.
    """
    try:
        with atomic_writer(path) as stream:
            for piece in archive(image, reference, fetch):
                stream.write(piece)
    except OSError as error:
        raise HostError(f"{path} could not be written", cause=str(error)) from error


def load_image(image: BuiltImage, reference: str, fetch: Fetch) -> str:
    """Send an image to the Docker engine and give its id there; nothing is stored on the way.

    Raises:
        HostError: no engine answers.
        BuildError: the engine did not take it, or took it for another image.
    """
    with connect(seconds=LOAD_SECONDS) as client:
        try:
            loaded = client.images.load(archive(image, reference, fetch))  # type: ignore[arg-type]
            ids = sorted({str(item.id) for item in loaded})
        except requests.ConnectionError as error:
            raise engine_error(error) from error
        except DockerException as error:
            raise BuildError(f"the Docker engine did not load {reference}", cause=str(error)) from error
    # An engine with containerd's image store names an image by its manifest, the older store by its config.
    if len(ids) != 1 or ids[0] not in (image.config_digest, image.manifest_digest):
        raise BuildError(
            f"the Docker engine loaded {', '.join(ids) or 'nothing'} instead of {image.config_digest}"
        )
    return ids[0]


def archive(image: BuiltImage, reference: str, fetch: Fetch) -> Iterator[bytes]:
    """The archive piece by piece: layers, config and `manifest.json`.

    Layers stay compressed: engines inflate them, and the config with its diff_ids is the same either way.
    """
    for layer in {layer.digest: layer for layer in image.layers}.values():
        yield from _layer(layer, fetch)
    config = f"{_hex(image.config_digest)}.json"
    yield from _small(config, image.config)
    names = [_layer_name(layer) for layer in image.layers]
    manifest = [{"Config": config, "RepoTags": [reference], "Layers": names}]
    yield from _small("manifest.json", canonical_json(manifest))
    yield bytes(2 * tarfile.BLOCKSIZE)


def _layer(layer: Blob, fetch: Fetch) -> Iterator[bytes]:
    if layer.path is not None:
        yield from _file(_layer_name(layer), layer.path)
        return
    with tempfile.TemporaryDirectory(prefix="flbuild-layer-") as folder:
        path = Path(folder) / "layer"
        fetch(layer, path)
        yield from _file(_layer_name(layer), path)


def _file(name: str, path: Path) -> Iterator[bytes]:
    size = path.stat().st_size
    yield _header(name, size)
    with path.open("rb") as stream:
        while piece := stream.read(CHUNK):
            yield piece
    yield _padding(size)


def _small(name: str, content: bytes) -> Iterator[bytes]:
    yield _header(name, len(content)) + content + _padding(len(content))


def _header(name: str, size: int) -> bytes:
    member = tarfile.TarInfo(name)
    member.size = size
    return member.tobuf(tarfile.GNU_FORMAT)


def _padding(size: int) -> bytes:
    return bytes(-size % tarfile.BLOCKSIZE)


def _layer_name(layer: Blob) -> str:
    return f"{_hex(layer.digest)}.tar"


def _hex(digest: str) -> str:
    return digest.removeprefix("sha256:")
