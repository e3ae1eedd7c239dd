from __future__ import annotations

import pytest

from flbuild.doctor.context import Machine
from flbuild.recipe.model import Recipe
from flbuild.settings import IndexSettings, Settings


def _recipe(**changes):
    values = {
        "schema": 1,
        "name": "demo",
        "summary": "a small image",
        "platform": "linux/amd64",
        "python": {"version": "3.11", "site_packages": "/site"},
        "base": {"debian": "bookworm"},
        "vllm": {"version": "0.28.0"},
        "targets": {"release": {}},
        "image": {"repository": "127.0.0.1:9/team/demo", "tag": "demo"},
    }
    return Recipe.model_validate({**values, **changes})


@pytest.fixture
def recipe():
    """`recipe(KEY=VALUE)`: a valid recipe."""
    return _recipe


@pytest.fixture
def machine(tmp_path):
    """`machine(run={PROGRAM: OUTPUT}, recipes=(...), pypi=URL, **settings)`: what is checked."""

    def make(run=None, recipes=(), indexes=None, **settings):
        values = {"cache_dir": tmp_path / "cache", "jobs": 1, **settings}
        known = {name: IndexSettings(url=url) for name, url in (indexes or {"pypi": str(tmp_path)}).items()}
        outputs = run or {}
        return Machine(
            Settings(indexes=known, **values),
            tuple(recipes),
            lambda *command: outputs.get(command[0].rpartition("/")[2]),
        )

    return make
