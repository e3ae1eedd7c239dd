"""Images in the hands of a Docker engine: pulled, loaded, run."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from docker_engine import Engine
from registry_server import RegistryServer

from flbuild.build.docker_archive import load_image, write_archive
from flbuild.build.model import Blob, BuiltImage
from flbuild.progress import Silent
from flbuild.registry.client import RegistryClient
from flbuild.registry.push import push_image
from flbuild.registry.reference import Reference


def no_fetch(layer: Blob, path: Path) -> None:
    raise AssertionError("every layer is here")


def test_a_pushed_image_is_pulled_by_digest_and_runs(
    client: RegistryClient, registry: RegistryServer, engine: Engine, make_image: Callable[..., BuiltImage]
) -> None:
    image = make_image(padding=1 << 20, note="pulled")
    target = Reference.parse(f"{registry.host}/engine/pulled:1")
    push_image(client, image, target, Silent())
    by_digest = str(target.at(image.manifest_digest))
    pulled = engine.client.images.pull(target.name, tag=image.manifest_digest)
    try:
        assert pulled.id in (image.config_digest, image.manifest_digest)
        assert pulled.attrs["RepoDigests"] == [by_digest]
        assert pulled.labels == {"note": "pulled"}
        assert engine.run(by_digest, ["--version"]).startswith("tini version")
    finally:
        engine.client.images.remove(by_digest, force=True)


def test_an_image_is_loaded_without_a_registry_and_runs(
    engine: Engine, make_image: Callable[..., BuiltImage], monkeypatch: pytest.MonkeyPatch
) -> None:
    image = make_image(padding=1 << 20, note="loaded")
    monkeypatch.setenv("DOCKER_HOST", engine.address)
    name = "flbuild.example/engine/loaded:1"
    found = load_image(image, name, no_fetch)
    try:
        assert found in (image.config_digest, image.manifest_digest)
        assert engine.client.images.get(name).id == found
        assert engine.run(name, ["--version"]).startswith("tini version")
    finally:
        engine.client.images.remove(name, force=True)


def test_a_layer_of_a_base_is_fetched_into_the_engine(
    client: RegistryClient,
    registry: RegistryServer,
    engine: Engine,
    make_image: Callable[..., BuiltImage],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    image = make_image(padding=1 << 20, note="fetched")
    base = Reference.parse(f"{registry.host}/engine/base:1")
    push_image(client, image, base, Silent())
    layers = tuple(replace(layer, path=None, from_base=True) for layer in image.layers)
    monkeypatch.setenv("DOCKER_HOST", engine.address)
    name = "flbuild.example/engine/fetched:1"
    load_image(
        replace(image, layers=layers, base_reference=str(base)),
        name,
        lambda layer, path: client.save_blob(base, layer.digest, path),
    )
    try:
        assert engine.run(name, ["--version"]).startswith("tini version")
    finally:
        engine.client.images.remove(name, force=True)


def test_an_archive_file_is_loaded_by_the_engine_and_read_by_skopeo(
    engine: Engine, make_image: Callable[..., BuiltImage], tmp_path: Path
) -> None:
    image, name = make_image(note="archive"), "flbuild.example/engine/archive:1"
    path = tmp_path / "image.tar"
    write_archive(image, path, name, no_fetch)
    with path.open("rb") as stream:
        (loaded,) = engine.client.images.load(stream)
    try:
        assert loaded.tags == [name]
    finally:
        engine.client.images.remove(name, force=True)
    done = subprocess.run(
        ["skopeo", "inspect", "--raw", "--config", f"docker-archive:{path}"], capture_output=True, check=True
    )
    assert done.stdout == image.config
