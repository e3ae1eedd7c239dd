from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from flbuild.settings import Settings, load_settings


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project folder, with a user configuration that is empty too."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def load(root: Path) -> Callable[..., Settings]:
    """Load settings from the text of flbuild.toml and from variables."""

    def load_from(text: str = "", /, **environ: str) -> Settings:
        (root / "flbuild.toml").write_text(text)
        return load_settings(root, {"PIP_CONFIG_FILE": os.devnull, **environ})

    return load_from
