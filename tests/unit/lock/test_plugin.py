from __future__ import annotations

import pytest

from flbuild.errors import RecipeError
from flbuild.lock.plugin import plugin_requirements
from flbuild.recipe.load import load_recipe


@pytest.fixture
def requires(demo):
    """`requires(text)`: what a plugin with this pyproject.toml requires."""

    def read(text):
        folder = demo.project.root / "plugin"
        folder.mkdir(exist_ok=True)
        (folder / "pyproject.toml").write_text(text)
        return plugin_requirements(demo.project.root, load_recipe(demo.recipe_path))

    return read


def test_dependencies_are_read_from_the_plugins_project_file(requires):
    text = '[project]\nname = "p"\ndependencies = ["PyYAML>=6", "numpy"]\n'
    assert requires(text) == ("PyYAML>=6", "numpy")


def test_a_plugin_without_a_project_file_requires_nothing(demo):
    assert plugin_requirements(demo.project.root, load_recipe(demo.recipe_path)) == ()


@pytest.mark.parametrize("pin", ["torch==2.9", "numpy==1.26.4", "vllm===0.28.0", "Torch==2.*"])
def test_b20_a_pin_of_what_the_recipe_decides_is_refused(requires, pin):
    with pytest.raises(RecipeError, match=r"plugin/pyproject\.toml: the plugin pins"):
        requires(f'[project]\nname = "p"\ndependencies = ["{pin}"]\n')


@pytest.mark.parametrize("text", ["[project", '[project]\ndependencies = ["not a requirement!"]\n'])
def test_a_broken_project_file_is_named(requires, text):
    with pytest.raises(RecipeError, match=r"plugin/pyproject\.toml cannot be read"):
        requires(text)
