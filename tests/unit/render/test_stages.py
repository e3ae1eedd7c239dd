from __future__ import annotations

import pytest

from flbuild.errors import LockStaleError
from flbuild.lock.model import GitSource, LockedSource
from flbuild.plan.model import PlannedLayer, PlannedUnresolved
from flbuild.render.stages import requirements


def ids(steps):
    return [step.layer.id for step in steps]


def remove(*paths):
    return PlannedLayer("remove", "remove", "out of the base", whiteouts=paths)


def test_what_all_targets_have_is_shared_and_the_plugin_comes_last_in_each(plan, layer, wheel, stages):
    common = (layer("dependencies", wheel("requests")),)
    extras = layer("target-ci", wheel("pytest"))
    made = stages(plan("release", common), plan("ci", (*common, extras)))
    assert ids(made.shared) == ["dependencies"]
    assert [ids(target.steps) for target in made.targets] == [["plugin"], ["target-ci", "plugin"]]


def test_a_large_wheel_of_one_target_is_not_in_the_others(plan, layer, wheel, stages):
    common = layer("dependencies", wheel("requests"))
    made = stages(plan("release", (common,)), plan("dev", (layer("cmake", wheel("cmake")), common)))
    assert ids(made.shared) == ["dependencies"]
    assert ids(made.targets[1].steps) == ["cmake", "plugin"]


def test_only_what_all_targets_take_out_of_the_base_is_taken_out_for_all(plan, layer, wheel, stages):
    common = layer("dependencies", wheel("requests"))
    made = stages(plan("release", (remove("/a"), common)), plan("ci", (remove("/a", "/b"), common)))
    assert [step.layer.whiteouts for step in made.shared if step.layer.kind == "remove"] == [("/a",)]
    assert made.targets[1].steps[0].layer.whiteouts == ("/b",)
    assert ids(made.targets[0].steps) == ["plugin"]


def test_targets_that_take_out_different_things_share_no_removal(plan, stages):
    made = stages(plan("release", (remove("/a"),)), plan("ci", (remove("/b"),)), plan("dev", ()))
    assert made.shared == ()
    assert [
        step.layer.whiteouts for target in made.targets for step in target.steps if step.layer.whiteouts
    ] == [
        ("/a",),
        ("/b",),
    ]


def test_layers_of_one_name_in_two_targets_have_folders_of_their_own(plan, layer, wheel, stages):
    made = stages(plan("ci", (layer("x", wheel("a")),)), plan("dev", (layer("x", wheel("b")),)))
    folders = [step.folder for target in made.targets for step in target.steps]
    assert folders == ["layers/ci/x", "layers/plugin", "layers/dev/x", "layers/plugin"]


def test_a_rendering_of_one_target_splits_layers_as_that_of_all_does(plan, layer, wheel, stages):
    common = (layer("dependencies", wheel("requests")),)
    plans = plan("release", common), plan("ci", (*common, layer("target-ci", wheel("pytest"))))
    assert stages(*plans, targets=("ci",)).shared == stages(*plans).shared
    assert [target.plan.target for target in stages(*plans, targets=("ci",)).targets] == ["ci"]


def test_a_step_knows_the_stage_that_builds_its_wheel(stages):
    made = stages()
    assert {step.layer.id: step.built for step in made.shared} == {
        "dependencies": (),
        "vllm": ("vllm-wheel",),
    }


def test_an_empty_device_build_gets_the_environment_of_flbuilds_own(stages):
    (source,) = stages().sources
    env = dict(source.env)
    assert env["VLLM_TARGET_DEVICE"] == "empty"
    assert env["VLLM_VERSION_OVERRIDE"] == "0.28.0+empty"
    assert env["SETUPTOOLS_SCM_PRETEND_VERSION_FOR_VLLM"] == "0.28.0+empty"
    assert env["PYTHONPATH"] == "/tmp/tools/empty-torch"
    assert source.archive == "vllm-0.28.0.tar.gz"


def test_a_git_source_is_an_archive_named_by_its_commit(plan, stages):
    source = LockedSource(
        name="flag-gems",
        version="5.0.2",
        source=GitSource(git="https://example.org/gems", commit="c" * 40, archive_sha256="b" * 64),
        filename="flag_gems-5.0.2-py3-none-any.whl",
        sha256="e" * 64,
        size=9,
    )
    (stage,) = stages(sources=(source,)).sources
    assert (stage.folder, stage.archive) == ("sources/flag-gems", f"flag-gems-{'c' * 12}.tar")
    assert "PYTHONPATH" not in dict(stage.env)


def test_unresolved_inputs_are_refused_by_name(plan, stages):
    missing = (
        PlannedUnresolved("flagtree 0.6", "flagos: did not answer"),
        PlannedUnresolved("base", "quay.io"),
    )
    with pytest.raises(LockStaleError) as caught:
        stages(plan(unresolved=missing, base=None))
    assert caught.value.exit_code == 3
    assert "flagtree 0.6: flagos: did not answer" in str(caught.value)
    assert "flbuild lock demo" in str(caught.value)


def test_a_lock_without_pip_is_refused(stages):
    with pytest.raises(LockStaleError, match="pins no pip"):
        stages(tools=())


def test_an_image_base_brings_its_own_environment(plan, image_base, stages):
    assert stages(plan(base=image_base)).base_env == ()
    assert stages(plan()).base_env[0].startswith("PATH=/usr/local/sbin:")


def test_requirements_pin_each_wheel_by_hash_in_order(wheel):
    text = requirements([wheel("b", "2.0+cpu"), wheel("a")])
    assert text.splitlines() == [
        f"a==1.0 --hash=sha256:{wheel('a').sha256}",
        f"b==2.0+cpu --hash=sha256:{wheel('b').sha256}",
    ]
