from __future__ import annotations

import pytest

from flbuild.errors import LockStaleError, UsageError
from flbuild.lock.model import Lock, LockedFile, LockedImage, Unresolved
from flbuild.progress import Silent
from flbuild.project import Project
from flbuild.recipe.model import Recipe
from flbuild.render import make
from flbuild.render.make import Renderer
from flbuild.wheel.model import BuiltWheel, PluginFacts

PLUGIN = "vllm_plugin_fl-1.2.0-py3-none-any.whl"


@pytest.fixture
def recipe():
    return Recipe.model_validate(
        {
            "schema": 1,
            "name": "demo",
            "summary": "a small image",
            "platform": "linux/amd64",
            "python": {"version": "3.11", "site_packages": "/usr/local/lib/python3.11/dist-packages"},
            "base": {"debian": "bookworm"},
            "vllm": {"version": "0.28.0"},
            "targets": {"release": {}, "ci": {"packages": ["pytest"]}},
            "image": {"repository": "example.org/demo", "tag": "demo-{target}"},
        }
    )


@pytest.fixture
def lock(debian_base):
    """`lock(KEY=VALUE)`: a lock whose entry `demo` has these changes."""

    def pin(name):
        filename = f"{name}-1.0-py3-none-any.whl"
        return LockedFile(name=name, version="1.0", index="pypi", filename=filename, sha256="1" * 64, size=1)

    def build(**changes):
        values = {
            "recipe": "sha256:" + "0" * 64,
            "platform": "linux/amd64",
            "python": "3.11",
            "base": debian_base,
            "packages": (pin("requests"),),
            "targets": {"ci": (pin("pytest"),)},
            **changes,
        }
        return Lock(build_tools=(pin("pip"),), images={"demo": LockedImage(**values)})

    return build


@pytest.fixture
def renderer(tmp_path, make_settings, monkeypatch):
    """A renderer for which the plugin is built already; `.built` counts how often it was asked for."""
    facts = PluginFacts("vllm-plugin-fl", "1.2.0", PLUGIN, "0" * 40, 0, True, None)

    def build_plugin(*given):
        made.built += 1
        return BuiltWheel(tmp_path / PLUGIN, "vllm-plugin-fl", "1.2.0", "f" * 64, 10)

    monkeypatch.setattr(make, "plugin_facts", lambda root, plugin, commit: facts)
    monkeypatch.setattr(make, "build_plugin", build_plugin)
    made = Renderer(Project(tmp_path), make_settings(pypi=str(tmp_path)), Silent())
    made.built = 0
    return made


def test_all_targets_are_staged_with_the_plugins_hash(renderer, recipe, lock):
    stages = renderer.stages(recipe, lock())
    assert [stage.plan.target for stage in stages.targets] == ["release", "ci"]
    plugin = stages.targets[0].steps[-1].layer.wheels[0]
    assert (plugin.filename, plugin.sha256) == (PLUGIN, "f" * 64)


def test_one_target_can_be_asked_for(renderer, recipe, lock):
    stages = renderer.stages(recipe, lock(), "ci")
    assert [stage.plan.target for stage in stages.targets] == ["ci"]


def test_an_unknown_target_is_a_usage_error(renderer, recipe, lock):
    with pytest.raises(UsageError, match="perhaps you meant 'release'"):
        renderer.stages(recipe, lock(), "relase")


def test_unresolved_inputs_are_refused_before_the_plugin_is_built(renderer, recipe, lock):
    missing = Unresolved(name="flagtree", version="0.6", source="flagos", reason="did not answer")
    with pytest.raises(LockStaleError, match=r"flagtree 0\.6: flagos: did not answer"):
        renderer.stages(recipe, lock(unresolved=(missing,)))
    assert renderer.built == 0
