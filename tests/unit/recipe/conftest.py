from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flbuild.recipe.model import Recipe

MINIMAL = """\
schema: 1
name: tiny
summary: A tiny image
platform: linux/arm64
python:
  version: "3.11"
  site_packages: /usr/lib/python3.11/site-packages
base:
  image: registry.example/base:v1
  provides:
    torch: 2.10.0+cpu
    torch-npu: 2.10.0
  remove: [triton]
vllm: {version: 0.28.0}
packages:
  - {name: Flag_Tree, version: 0.6.2a1, index: flagos, provides_modules: {triton: 3.5.1}}
targets:
  release: {}
  ci: {packages: [pytest]}
  dev: {extends: ci, packages: [ruff]}
image:
  repository: registry.example/team/image
  tag: "{vllm}-{target}"
"""


@pytest.fixture
def minimal() -> str:
    return MINIMAL


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    """Write text as the recipe `tiny` of a project in tmp_path."""

    def write_recipe(text: str) -> Path:
        path = tmp_path / "recipes" / "tiny.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text.encode())
        return path

    return write_recipe


@pytest.fixture
def make() -> Callable[..., Recipe]:
    """A recipe from the minimal one, with top-level keys replaced."""

    def make_recipe(**changes: Any) -> Recipe:
        import yaml

        return Recipe.model_validate({**yaml.safe_load(MINIMAL), **changes})

    return make_recipe
