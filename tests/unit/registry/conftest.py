"""A fake registry, and clients that know only what a test tells them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flbuild.progress import Silent
from flbuild.registry.client import RegistryClient
from flbuild.settings import load_settings

from .fake_registry import FakeRegistry, serve


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    """A fake registry: `.add_manifest`, `.add_blob`, `.on(method, part, answers)`, `.auth`, `.asked`."""
    with serve() as fake:
        yield fake


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """A home without docker configuration, and PATH without credential helpers."""
    (tmp_path / "bin").mkdir()
    return {
        "HOME": str(tmp_path),
        "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin",
        "FLBUILD_CACHE_DIR": str(tmp_path / "cache"),
        "PIP_CONFIG_FILE": "/dev/null",
    }


@pytest.fixture
def progress() -> Silent:
    """Keeps the warnings."""
    return Silent()


@pytest.fixture
def make_client(
    environ: dict[str, str], progress: Silent, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., RegistryClient]:
    """`make_client(**variables)`: a client that retries without waiting, with settings of the variables."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))

    def make(**variables: str) -> RegistryClient:
        known = {**environ, **variables}
        return RegistryClient(load_settings(None, known), progress, known, wait=0)

    return make


@pytest.fixture
def client(make_client: Callable[..., RegistryClient]) -> RegistryClient:
    """A client without any setting."""
    return make_client()
