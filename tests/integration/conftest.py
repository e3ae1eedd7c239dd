"""Fixtures of the integration tests: a real registry, a real engine, settings apart from this machine's."""

from __future__ import annotations

import io
import os
import shutil
import sys
import tarfile
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import IO

import pytest

from flbuild.build.model import Blob, BuiltImage
from flbuild.build.oci.cache import MEDIA_TYPE, LayerCache
from flbuild.build.oci.config import MANIFEST, canonical_json, make_manifest
from flbuild.progress import Silent
from flbuild.registry.client import RegistryClient
from flbuild.settings import Settings, load_settings

# Modules of this folder; importlib's mode does not put it on the path.
sys.path.insert(0, str(Path(__file__).parent))

from checkout import REPOSITORY, Checkout, clone_repository
from cpu_image import CpuImage
from docker_engine import Engine, run_engine
from registry_server import RegistryServer, serve
from stand_ins.project import hardware_checkout

PROGRAM = "/usr/bin/tini-static"
"""A static program that docker.io's package brings along; `--version` makes it print a line."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here is an integration test."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.integration)


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryServer]:
    """A registry that anyone may read and write: `.host`, `.blobs()`."""
    with serve(tmp_path_factory.mktemp("registry")) as server:
        yield server


@pytest.fixture(scope="session")
def private_registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryServer]:
    """A registry that asks for `registry_server.USER` and `PASSWORD`."""
    with serve(tmp_path_factory.mktemp("private-registry"), private=True) as server:
        yield server


@pytest.fixture
def fresh_registry(tmp_path: Path) -> Iterator[RegistryServer]:
    """An empty registry of the test's own, which it may stop and start."""
    with serve(tmp_path / "fresh-registry") as server:
        yield server


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """A Docker engine: `.client` is the SDK's, `.run(image, command)` gives the output."""
    with run_engine() as running:
        yield running


@pytest.fixture(scope="session")
def cache_dir() -> Path:
    """The cache that repeated runs of these tests share: FLBUILD_TEST_CACHE, else the user's own."""
    named = os.environ.get("FLBUILD_TEST_CACHE")
    return Path(named) if named else load_settings(None, os.environ).cache_dir


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory, cache_dir: Path) -> Checkout:
    """A clone of this repository at HEAD, so that no test touches its images.lock."""
    root = tmp_path_factory.mktemp("checkout") / "project"
    clone_repository(REPOSITORY, root)
    return Checkout(root, {**os.environ, "FLBUILD_CACHE_DIR": str(cache_dir)})


@pytest.fixture(scope="session")
def cpu_image(checkout: Checkout, tmp_path_factory: pytest.TempPathFactory) -> CpuImage:
    """The cpu image of that clone, built once: `.layout`, `.manifest`, `.checkout`, `.summary`."""
    layout = tmp_path_factory.mktemp("cpu") / "layout"
    done = checkout.flbuild("image", "cpu", "--output", f"oci:{layout}", "--refresh-base", "--json")
    return CpuImage(layout, checkout, done.json)


@pytest.fixture(scope="session")
def hardware(tmp_path_factory: pytest.TempPathFactory, cache_dir: Path) -> Iterator[Checkout]:
    """A checkout whose `ascend` and `cuda` are locked against stand-ins; see the package `stand_ins`."""
    folder = tmp_path_factory.mktemp("hardware")
    with (
        serve(folder / "registry") as server,
        hardware_checkout(folder / "checkout", server.host, cache_dir) as checkout,
    ):
        yield checkout


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """An environment with a home of its own: no docker configuration, no flbuild.toml of the user."""
    home = tmp_path / "home"
    home.mkdir()
    kept = {name: os.environ[name] for name in ("PATH",) if name in os.environ}
    return {**kept, "HOME": str(home), "FLBUILD_CACHE_DIR": str(tmp_path / "cache")}


@pytest.fixture
def settings(environ: dict[str, str]) -> Settings:
    """Built-in settings with an empty cache."""
    return load_settings(None, environ)


@pytest.fixture
def client(settings: Settings, environ: dict[str, str]) -> RegistryClient:
    """A registry client without any credential."""
    return RegistryClient(settings, Silent(), environ)


@pytest.fixture
def make_image(settings: Settings) -> Callable[..., BuiltImage]:
    """`make_image(padding=0, note="")`: a static program in one layer, random bytes in another."""

    def make(padding: int = 0, note: str = "") -> BuiltImage:
        assert shutil.which(PROGRAM), f"{PROGRAM} is missing: apt-get install docker.io"
        cache = LayerCache(settings.cache_dir)
        program = Path(PROGRAM).read_bytes()
        noise = Random(note or "padding").randbytes(padding)
        contents = [("hello", program), ("padding", noise)]
        layers = [_layer(cache, name, content) for name, content in contents]
        config = canonical_json(
            {
                "architecture": "amd64",
                "os": "linux",
                "config": {"Entrypoint": ["/hello"], "Labels": {"note": note}},
                "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in layers]},
            }
        )
        config_digest = f"sha256:{sha256(config).hexdigest()}"
        manifest = make_manifest(config, config_digest, layers)
        return BuiltImage(
            manifest=manifest,
            manifest_digest=f"sha256:{sha256(manifest).hexdigest()}",
            manifest_media_type=MANIFEST,
            config=config,
            config_digest=config_digest,
            layers=tuple(layers),
            base_reference=None,
        )

    return make


def _layer(cache: LayerCache, name: str, content: bytes) -> Blob:
    def write(stream: IO[bytes]) -> None:
        with tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as tar:
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o755
            tar.addfile(member, io.BytesIO(content))

    made = cache.make(f"{name}-{sha256(content).hexdigest()}", write)
    return Blob(made.digest, made.size, MEDIA_TYPE, made.diff_id, cache.path(made.digest), from_base=False)
