"""The reference pages say what the code does."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flbuild.cli.recipe import app
from flbuild.recipe.model import (
    Ci,
    DebianBase,
    Image,
    ImageBase,
    Package,
    Plugin,
    Python,
    Recipe,
    Target,
    Vllm,
    Waiver,
)
from flbuild.settings import load_settings
from flbuild.settings.variables import PLAIN_VARIABLES

ROOT = Path(__file__).parents[2]
RECIPES = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
SETTINGS = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("command", re.findall(r"^\$ flbuild recipe (.*?)(?:#|$)", RECIPES, re.MULTILINE))
def test_every_recipe_command_runs(command, monkeypatch):
    monkeypatch.chdir(ROOT)
    result = CliRunner().invoke(app, shlex.split(command))
    assert result.exit_code == 0
    assert result.stdout


def test_every_key_of_a_recipe_is_described():
    names = {field.alias or name for name, field in Recipe.model_fields.items()}
    for model in (Ci, DebianBase, Image, ImageBase, Package, Plugin, Python, Target, Vllm, Waiver):
        names |= set(model.model_fields)
    assert {name for name in names - {"kind"} if not re.search(rf"`{name}\b", RECIPES)} == set()


def test_the_settings_example_is_valid_and_complete(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    example = re.search(r"```toml\n(.*?)```", SETTINGS, re.DOTALL)[1]
    (tmp_path / "flbuild.toml").write_text(example)
    settings = load_settings(tmp_path, {})
    assert settings.index("flagos").url == str(tmp_path / "vendored" / "flagos")
    assert settings.registry("registry.lan:5000").plain_http is True
    assert settings.jobs == 8


def test_every_variable_and_index_is_described():
    indexes = load_settings(None, {}).indexes
    assert {name for name in (*PLAIN_VARIABLES, *indexes) if f"`{name}`" not in SETTINGS} == set()
