from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import docker
import pytest
import requests
from docker.errors import DockerException, ImageLoadError

from flbuild.build.docker_archive import archive, load_image, write_archive
from flbuild.build.model import Blob, BuiltImage
from flbuild.errors import BuildError, HostError

NAME = "registry.example/team/image:1"


def digest_of(content: bytes) -> str:
    return f"sha256:{sha256(content).hexdigest()}"


def blob(content: bytes, path: Path | None) -> Blob:
    return Blob(digest_of(content), len(content), "x", digest_of(content), path, path is None)


@pytest.fixture
def image(tmp_path: Path) -> BuiltImage:
    """A layer of the base that is not here, one that is, and the first one again."""
    (tmp_path / "own").write_bytes(b"own layer" * 100)
    layers = (
        blob(b"of the base", None),
        blob(b"own layer" * 100, tmp_path / "own"),
        blob(b"of the base", None),
    )
    config = b'{"architecture":"amd64"}'
    return BuiltImage(b"{}", digest_of(b"{}"), "x", config, digest_of(config), layers, "quay.example/base:1")


def fetch(layer: Blob, path: Path) -> None:
    assert not path.exists()
    path.write_bytes(b"of the base")


def contents(packed: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar}


def test_the_archive_holds_each_layer_once_the_config_and_what_is_what(image: BuiltImage) -> None:
    found = contents(b"".join(archive(image, NAME, fetch)))
    base, own = (f"{digest_of(content)[7:]}.tar" for content in (b"of the base", b"own layer" * 100))
    config = f"{image.config_digest[7:]}.json"
    (manifest,) = json.loads(found["manifest.json"])
    assert manifest == {"Config": config, "Layers": [base, own, base], "RepoTags": [NAME]}
    assert found[config] == image.config
    assert (found[base], found[own]) == (b"of the base", b"own layer" * 100)
    assert len(found) == 4


def test_the_same_image_gives_the_same_archive(image: BuiltImage) -> None:
    assert list(archive(image, NAME, fetch)) == list(archive(image, NAME, fetch))


def test_an_archive_is_written_whole_or_not_at_all(image: BuiltImage, tmp_path: Path) -> None:
    path = tmp_path / "out" / "image.tar"

    def fail(layer: Blob, target: Path) -> None:
        raise HostError("the network is gone")

    with pytest.raises(HostError):
        write_archive(image, path, NAME, fail)
    assert list(path.parent.iterdir()) == []
    write_archive(image, path, NAME, fetch)
    assert path.read_bytes() == b"".join(archive(image, NAME, fetch))


def test_a_place_that_cannot_be_written_is_this_machines_fault(image: BuiltImage, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(HostError, match="could not be written"):
        write_archive(image, tmp_path / "file" / "image.tar", NAME, fetch)


class FakeEngine:
    """The part of the SDK's client that loads images."""

    def __init__(self, ids: list[str], error: Exception | None = None) -> None:
        self.images = self
        self.received = b""
        self._ids = ids
        self._error = error

    def load(self, data: Iterable[bytes]) -> list[Any]:
        self.received = b"".join(data)
        if self._error:
            raise self._error
        return [SimpleNamespace(id=item) for item in self._ids]

    def ping(self) -> bool:
        return True

    def close(self) -> None:
        pass


def on_engine(monkeypatch: pytest.MonkeyPatch, engine: FakeEngine) -> None:
    monkeypatch.setattr(docker, "from_env", lambda **options: engine)
    monkeypatch.setenv("DOCKER_HOST", "unix:///fake.sock")


def test_an_image_is_streamed_into_the_engine(image: BuiltImage, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = FakeEngine([image.config_digest])
    on_engine(monkeypatch, engine)
    assert load_image(image, NAME, fetch) == image.config_digest
    assert len(contents(engine.received)) == 4


def test_an_engine_that_names_images_by_manifest_is_understood(
    image: BuiltImage, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_engine(monkeypatch, FakeEngine([image.manifest_digest]))
    assert load_image(image, NAME, fetch) == image.manifest_digest


@pytest.mark.parametrize("ids", [[], [digest_of(b"another")], [digest_of(b"a"), digest_of(b"b")]])
def test_another_image_in_the_engine_is_an_error(
    image: BuiltImage, monkeypatch: pytest.MonkeyPatch, ids: list[str]
) -> None:
    on_engine(monkeypatch, FakeEngine(ids))
    with pytest.raises(BuildError, match=f"instead of {image.config_digest}"):
        load_image(image, NAME, fetch)


def test_what_the_engine_says_is_told(image: BuiltImage, monkeypatch: pytest.MonkeyPatch) -> None:
    on_engine(monkeypatch, FakeEngine([], ImageLoadError("invalid diffID for layer 1")))
    with pytest.raises(BuildError, match="invalid diffID"):
        load_image(image, NAME, fetch)


def test_an_engine_that_goes_away_is_missing(image: BuiltImage, monkeypatch: pytest.MonkeyPatch) -> None:
    on_engine(monkeypatch, FakeEngine([], requests.ConnectionError("broken pipe")))
    with pytest.raises(HostError, match="start it"):
        load_image(image, NAME, fetch)


def test_no_engine_is_missing(image: BuiltImage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/absent.sock")
    with pytest.raises(HostError, match="start it") as missing:
        load_image(image, NAME, fetch)
    assert missing.value.exit_code == 10
    assert isinstance(missing.value.__cause__, DockerException)
