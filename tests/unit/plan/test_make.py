from __future__ import annotations

from pathlib import Path

import pytest

from flbuild.errors import UsageError
from flbuild.plan.make import make_plan, with_plugin
from flbuild.wheel.model import BuiltWheel


@pytest.fixture
def plan(recipe, locked, facts):
    def make(target="release", recipe_changes=None, facts_changes=None, **locked_changes):
        return make_plan(
            recipe(**(recipe_changes or {})), locked(**locked_changes), target, facts(**(facts_changes or {}))
        )

    return make


def labels(made):
    return {key.removeprefix("org.opencontainers.image."): value for key, value in made.config.labels}


def test_times_come_from_the_commit(plan, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1")
    made = plan()
    assert made.config.created == "2026-09-10T00:26:40Z"
    assert made.epoch == 1_789_000_000
    assert made.tag == "demo-vllm0.28.0-release-20260910"


def test_the_labels_say_what_it_is_and_where_it_comes_from(plan):
    assert labels(plan()) == {
        "title": "vllm-plugin-fl demo release",
        "version": "1.2.0",
        "revision": "0123456789abcdef0123456789abcdef01234567",
        "source": "https://example.org/plugin",
        "created": "2026-09-10T00:26:40Z",
    }


def test_a_registry_base_is_named_with_its_digest(plan, image_base):
    found = labels(plan(base=image_base()))
    assert found["base.name"] == "quay.io/ascend/vllm-ascend:v1"
    assert found["base.digest"] == "sha256:" + "d" * 64


def test_what_is_not_known_has_no_label(plan):
    found = labels(plan(facts_changes={"revision": None, "source": None}))
    assert not {"revision", "source"} & set(found)


def test_wheels_go_where_the_images_python_looks(plan):
    python = {
        "version": "3.11",
        "executable": "/opt/py/bin/python3",
        "site_packages": "/opt/py/lib/python3.11/site-packages",
        "scripts": "/opt/py/bin",
    }
    scheme = plan(recipe_changes={"python": python}).scheme
    assert (scheme.data, scheme.headers) == ("/opt/py", "/opt/py/include/python3.11")
    assert (scheme.executable, scheme.scripts) == ("/opt/py/bin/python3", "/opt/py/bin")


def test_byte_code_needs_a_base_whose_interpreter_is_here(plan):
    assert plan().scheme.bytecode
    assert plan().notes == ()
    image = {"image": "quay.io/ascend/vllm-ascend:v1"}
    assert not plan(recipe_changes={"base": image}).scheme.bytecode
    assert "registry base" in plan(recipe_changes={"base": image}).notes[0]


def test_a_recipe_can_turn_byte_code_off(plan, recipe):
    python = {**recipe().python.model_dump(), "bytecode": False}
    assert plan(recipe_changes={"python": python}).notes == ("no byte-code: the recipe turns it off",)


def test_a_missing_input_is_part_of_the_plan(plan, missing):
    made = plan(unresolved=(missing,), base=None)
    assert [(item.name, item.reason) for item in made.unresolved] == [
        ("cann-shmem 1.6.0", "cann: did not answer")
    ]


def test_an_unknown_target_is_a_usage_error(plan):
    with pytest.raises(UsageError, match="no target 'relese'; perhaps you meant 'release'"):
        plan("relese")


def test_the_same_inputs_give_the_same_plan_whatever_their_order(plan, locked):
    files = locked().packages
    one, two = plan(packages=files), plan(packages=tuple(reversed(files)))
    sets = [[(layer.id, frozenset(layer.wheels)) for layer in made.layers] for made in (one, two)]
    assert sets[0] == sets[1]


def test_a_built_plugin_completes_the_plan_and_nothing_else(plan):
    made = plan()
    wheel = BuiltWheel(
        Path("/store/vllm_plugin_fl-1.2.0-py3-none-any.whl"), "vllm-plugin-fl", "1.2.0", "f" * 64, 77
    )
    complete = with_plugin(made, wheel)
    (planned,) = complete.layers[-1].wheels
    assert (planned.sha256, planned.size, planned.filename) == ("f" * 64, 77, wheel.filename)
    assert complete.layers[:-1] == made.layers[:-1]
