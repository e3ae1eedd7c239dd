from __future__ import annotations

import pytest

from flbuild.errors import LockStaleError
from flbuild.plan.layers import LARGE, make_layers

REMOVE = {"image": "quay.io/ascend/vllm-ascend:v1", "remove": ["triton"]}


@pytest.fixture
def layers(recipe, locked, facts):
    def make(target="release", recipe_changes=None, **locked_changes):
        return make_layers(recipe(**(recipe_changes or {})), locked(**locked_changes), target, facts())

    return make


def names(made):
    return {layer.id: sorted(wheel.name for wheel in layer.wheels) for layer in made}


def test_what_changes_least_is_lowest_and_the_plugin_is_last(layers):
    assert list(names(layers("ci"))) == ["torch", "dependencies", "packages", "vllm", "target-ci", "plugin"]


def test_every_wheel_is_in_exactly_one_layer(layers):
    assert names(layers("ci")) == {
        "torch": ["torch"],
        "dependencies": ["pyyaml", "requests"],
        "packages": ["numpy"],
        "vllm": ["vllm"],
        "target-ci": ["pytest"],
        "plugin": ["vllm-plugin-fl"],
    }


def test_targets_share_every_layer_below_their_own(layers):
    release, ci = layers("release"), layers("ci")
    assert [layer for layer in ci if layer.id != "target-ci"] == list(release)


def test_a_wheel_is_large_by_its_size_alone(layers, locked_file):
    made = layers(packages=(locked_file("big", size=LARGE), locked_file("small", size=LARGE - 1)))
    assert names(made)["big"] == ["big"]
    assert names(made)["dependencies"] == ["small"]


def test_what_was_asked_for_by_name_is_told_from_what_came_along(layers):
    requested = {wheel.name: wheel.requested for layer in layers("ci") for wheel in layer.wheels}
    assert requested == {
        "torch": True,
        "numpy": True,
        "vllm": True,
        "vllm-plugin-fl": True,
        "pyyaml": False,
        "requests": False,
        "pytest": False,
    }


def test_a_source_built_from_git_is_with_the_pinned_packages(layers, vllm_source, gems_source):
    gems = {"name": "flag-gems", "version": "5.0.2", "git": "https://example.org/gems", "commit": "0" * 40}
    made = layers(recipe_changes={"packages": [gems]}, sources=(vllm_source, gems_source), packages=())
    assert names(made)["packages"] == ["flag-gems"]
    assert next(layer.wheels[0].origin for layer in made if layer.id == "packages") == "source"


def test_the_plugin_has_no_hash_before_it_is_built(layers):
    (wheel,) = layers()[-1].wheels
    assert (wheel.sha256, wheel.size, wheel.origin) == (None, None, "plugin")


def test_what_leaves_the_base_is_whited_out_first(layers, image_base):
    base = image_base(("triton", ["/site/triton/a.py", "/site/triton/b.py"]), ("other", []))
    first = layers(recipe_changes={"base": REMOVE}, base=base)[0]
    assert (first.kind, first.whiteouts) == ("remove", ("/site/triton/a.py", "/site/triton/b.py"))
    assert first.reason == "out of the base: triton"


def test_what_is_installed_in_another_version_is_whited_out_too(layers, image_base):
    base = image_base(("numpy", ["/site/numpy/a.py"]), ("vllm-plugin-fl", ["/site/vllm_fl/a.py"]))
    first = layers(base=base)[0]
    assert first.whiteouts == ("/site/numpy/a.py", "/site/vllm_fl/a.py")
    assert first.reason == "replaced above: numpy, vllm-plugin-fl"


def test_a_target_replaces_only_what_it_installs(layers, image_base):
    base = image_base(("pytest", ["/site/pytest.py"]))
    assert layers("release", base=base)[0].kind == "wheels"
    assert layers("ci", base=base)[0].whiteouts == ("/site/pytest.py",)


def test_a_lock_without_the_files_to_remove_is_stale(layers, image_base):
    with pytest.raises(LockStaleError, match="does not list the files of triton"):
        layers(recipe_changes={"base": REMOVE}, base=image_base(("triton", [])))


def test_a_base_that_is_not_locked_gives_the_other_layers(layers):
    assert list(names(layers(base=None))) == ["torch", "dependencies", "packages", "vllm", "plugin"]
