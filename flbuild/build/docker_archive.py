"""The docker-archive form of an image, for engines that read no OCI layout (20.10 of Debian 12)."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from pathlib import Path

from flbuild.build.model import Blob, BuiltImage
from flbuild.build.oci.config import canonical_json
from flbuild.errors import BuildError, HostError
from flbuild.files import CHUNK, atomic_writer, unnamed_folder

LOAD_SECONDS = 1800


def write_archive(image: BuiltImage, path: Path, reference: str, fetch: Callable[[Blob, Path], None]) -> None:
    """Write what `docker save` would have written: config, layers and `manifest.json`.

    Layers stay compressed: engines inflate them, and the config with its diff_ids is the same either way.

    Args:
        reference: repository:tag, the name the image gets.
        fetch: writes a layer that has no local file to a path.
    """
    with atomic_writer(path) as stream, tarfile.open(fileobj=stream, mode="w|") as tar:
        names = []
        for layer in {layer.digest: layer for layer in image.layers}.values():
            name = f"{layer.digest.removeprefix('sha256:')}.tar"
            if layer.path is not None:
                _add_file(tar, name, layer.path)
            else:
                with unnamed_folder(path.parent) as workplace:
                    fetch(layer, workplace / "layer")
                    _add_file(tar, name, workplace / "layer")
        for layer in image.layers:
            names.append(f"{layer.digest.removeprefix('sha256:')}.tar")
        config = f"{image.config_digest.removeprefix('sha256:')}.json"
        _add_bytes(tar, config, image.config)
        manifest = [{"Config": config, "RepoTags": [reference], "Layers": names}]
        _add_bytes(tar, "manifest.json", canonical_json(manifest))


def load_archive(path: Path, image: BuiltImage) -> str:
    """Load an archive into the Docker engine and give the image's id there.

    Raises:
        HostError: no engine answers.
        BuildError: the engine took it for another image.
    """
    # Here, not above: the SDK takes longer to import than most commands take to run.
    import docker
    from docker.errors import DockerException

    try:
        client = docker.from_env(timeout=LOAD_SECONDS)
        with path.open("rb") as stream:
            loaded = client.images.load(iter(lambda: stream.read(CHUNK), b""))  # type: ignore[arg-type]
    except DockerException as error:
        raise HostError(
            "the Docker engine cannot be asked to load the image",
            cause=str(error),
            remedy="start it (dockerd), or set DOCKER_HOST; flbuild doctor tells more",
        ) from error
    ids = [str(item.id) for item in loaded]
    # An engine with containerd's image store names an image by its manifest, the older store by its config.
    known = {image.config_digest, image.manifest_digest}
    if len(ids) != 1 or not known & set(ids):
        raise BuildError(f"the engine loaded {', '.join(ids) or 'nothing'} instead of {image.config_digest}")
    return ids[0]


def _add_file(tar: tarfile.TarFile, name: str, path: Path) -> None:
    with path.open("rb") as content:
        member = tarfile.TarInfo(name)
        member.size = path.stat().st_size
        tar.addfile(member, content)


def _add_bytes(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))
