from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from flbuild.recipe.check import check_recipe
from flbuild.recipe.load import load_recipe
from flbuild.settings import load_settings

RECIPES = Path(__file__).parents[3] / "recipes"
TODAY = date(2026, 10, 15)


def found(recipe, **around):
    return [
        (finding.severity, finding.check, finding.subject, finding.message)
        for finding in check_recipe(recipe, **{"today": TODAY, **around})
    ]


def base(**changes):
    return {"image": "registry.example/base:v1", "provides": {"torch": "2.10.0+cpu"}, **changes}


@pytest.mark.parametrize("name", ["ascend", "cpu", "cuda"])
def test_the_committed_recipes_have_no_findings(name, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    indexes = load_settings(None, {}).indexes
    assert found(load_recipe(RECIPES / f"{name}.yaml"), indexes=indexes) == []


def test_b1_torch_newer_than_torch_npu_supports_names_both_keys(make):
    # vllm-ascend#5710
    recipe = make(base=base(provides={"torch": "2.11.0+cpu", "torch-npu": "2.10.0"}))
    ((severity, check, subject, message),) = found(recipe)
    assert (severity, check, subject) == ("error", "compatibility", "base.provides.torch-npu")
    assert "base.provides.torch-npu (torch-npu 2.10.0)" in message
    assert "base.provides.torch (torch 2.11.0+cpu)" in message


def test_torch_from_a_package_is_compared_with_torch_npu_too(make):
    recipe = make(
        base=base(provides={"torch-npu": "2.10.0"}), packages=[{"name": "torch", "version": "2.13.0+cpu"}]
    )
    ((_, check, _, message),) = found(recipe)
    assert check == "compatibility"
    assert "packages[0] (torch 2.13.0+cpu)" in message


@pytest.mark.parametrize("other", ["triton", "triton-ascend"])
def test_b10_b14_flagtree_tolerates_no_other_owner_of_triton(make, other):
    # FlagGems#4679, FlagGems#2626: in either order, and from the base as well
    tree = {"name": "flagtree", "version": "0.6.2a1", "provides_modules": {"triton": "3.5.1"}}
    rival = {"name": other, "version": "3.2.1"}
    for recipe in (
        make(packages=[tree, rival]),
        make(packages=[rival, tree]),
        make(packages=[tree], base=base(provides={other: "3.2.1"}, remove=[])),
    ):
        ((severity, check, _, message),) = found(recipe)
        assert (severity, check) == ("error", "compatibility")
        assert f"({other} 3.2.1)" in message


def test_flag_gems_without_anything_that_owns_triton_is_an_error(make):
    # FlagTree#619: neither the compiler nor triton was in a published image
    gems = {"name": "flag-gems", "version": "5.0.2"}
    ((severity, _, subject, message),) = found(make(packages=[gems]))
    assert (severity, subject) == ("error", "packages[0]")
    assert "needs the module triton" in message
    assert found(make(packages=[gems, {"name": "triton", "version": "3.6.0"}])) == []


def test_b17_a_cann_release_other_than_torch_npus_is_a_warning_with_its_source(make):
    # Ascend/pytorch#99
    recipe = make(
        base=base(provides={"torch": "2.7.1", "torch-npu": "2.7.1"}, components={"cann": "8.3.RC1"})
    )
    (finding,) = check_recipe(recipe, today=TODAY)
    assert (finding.severity, finding.check) == ("warning", "compatibility")
    assert "undefined symbol" in finding.message
    assert finding.remedy == "see https://github.com/Ascend/pytorch/issues/99"


def test_b16_nnal_of_another_release_than_cann_is_a_warning(make):
    # vllm-ascend#117
    recipe = make(base=base(components={"cann": "9.0.0", "nnal": "8.5.0"}))
    ((severity, _, subject, message),) = found(recipe)
    assert (severity, subject) == ("warning", "base.components.cann")
    assert "base.components.nnal (nnal 8.5.0)" in message


def test_a_python_that_vllm_does_not_support_is_an_error(make):
    recipe = make(python={"version": "3.14", "site_packages": "/usr/lib/site-packages"})
    ((severity, _, subject, message),) = found(recipe)
    assert (severity, subject) == ("error", "vllm.version")
    assert "python.version (python 3.14)" in message


@pytest.mark.parametrize(
    ("changes", "subject", "words"),
    [
        (
            {"packages": [{"name": "a", "version": "1"}, {"name": "A", "version": "2"}]},
            "packages[1]",
            "by packages[0]",
        ),
        ({"packages": [{"name": "vllm", "version": "1"}]}, "packages[0]", "already set by vllm"),
        ({"packages": [{"name": "vllm_plugin_fl", "version": "1"}]}, "packages[0]", "already set by plugin"),
        ({"packages": [{"name": "torch", "version": "2.10.0"}]}, "packages[0]", "which nothing may replace"),
        ({"base": base(remove=["torch"])}, "base.provides.torch", "in base.remove too"),
        ({"base": base(remove=["a", "A"])}, "base.remove", "a is there 2 times"),
        ({"forbid": ["flag-*"]}, "packages[0]", "flag-tree is required here and forbidden by 'flag-*'"),
        ({"forbid": ["torch"]}, "base.provides.torch", "forbidden by 'torch'"),
        ({"forbid": ["ruff"]}, "targets.dev.packages[0]", "ruff is required here"),
        ({"forbid": ["vllm*"]}, "vllm", "vllm is required here"),
        ({"targets": {"releas": {}}}, "targets", "perhaps 'releas' is meant to be it"),
        (
            {"targets": {"release": {}, "ci": {"extends": "relese"}}},
            "targets.ci.extends",
            "perhaps you meant 'release'",
        ),
        ({"targets": {"release": {"extends": "release"}}}, "targets.release.extends", "a circle"),
        (
            {"targets": {"release": {"packages": ["flag_tree>1"]}}},
            "targets.release.packages[0]",
            "excludes flag-tree 0.6.2a1",
        ),
        (
            {"overrides": ["torch==2.11"]},
            "overrides[0]",
            "excludes torch 2.10.0+cpu, set by base.provides.torch",
        ),
        ({"overrides": ["a==1", "A==2"]}, "overrides", "a is overridden 2 times"),
        ({"image": {"repository": "x.example/y", "tag": "{vllm}"}}, "image.tag", "the same tag"),
        (
            {"python": {"version": "3.12", "site_packages": "/usr/lib/python3.11/site-packages"}},
            "python.site_packages",
            "belongs to Python 3.11",
        ),
        (
            {"python": {"version": "3.12", "site_packages": "/x", "executable": "/usr/bin/python3.11"}},
            "python.executable",
            "belongs to Python 3.11",
        ),
    ],
)
def test_a_contradiction_is_an_error_at_its_key(make, changes, subject, words):
    recipe = make(**{"base": base(), **changes})
    errors = [item for item in found(recipe) if item[0] == "error"]
    assert [item[2] for item in errors][:1] == [subject]
    assert words in errors[0][3]


def test_a_broken_extends_is_reported_once_where_it_stands(make):
    targets = {"release": {}, "a": {"extends": "zzz"}, "b": {"extends": "a"}, "c": {"extends": "b"}}
    ((_, _, subject, message),) = found(make(base=base(), targets=targets))
    assert subject == "targets.a.extends"
    assert message.startswith("unknown target 'zzz'")


def test_a_single_target_needs_no_place_in_the_tag(make):
    image = {"repository": "x.example/y", "tag": "{vllm}"}
    assert found(make(base=base(), image=image, targets={"release": {}})) == []


def test_no_target_is_suggested_when_none_is_near(make):
    ((_, _, subject, message),) = found(make(base=base(), targets={"zzz": {}}))
    assert subject == "targets"
    assert "perhaps" not in message


def test_a_forbidden_vllm_forbids_the_plugin_by_its_name_as_well(make):
    subjects = [item[2] for item in found(make(base=base(), forbid=["vllm*"]))]
    assert subjects == ["vllm", "plugin.name"]


def test_an_override_that_agrees_with_a_pin_is_fine(make):
    recipe = make(
        base=base(), overrides=["torch==2.10.0", 'x==1; sys_platform == "a"', 'x==2; sys_platform == "b"']
    )
    assert found(recipe) == []


def test_an_unknown_index_is_suggested(make):
    ((severity, check, subject, message),) = found(make(base=base()), indexes=["flagoss", "pypi"])
    assert (severity, check, subject) == ("error", "indexes", "packages[0].index")
    assert "perhaps you meant 'flagoss'" in message


def waiver(**changes):
    return {
        "check": "requirements",
        "subject": "x",
        "reason": "because of this",
        "expires": "2030-01-01",
        **changes,
    }


def test_an_unknown_check_in_a_waiver_is_suggested(make):
    recipe = make(base=base(), waivers=[waiver(check="requirement")])
    ((severity, _, subject, message),) = found(recipe, checks=["requirements", "files"])
    assert (severity, subject) == ("error", "waivers[0].check")
    assert "perhaps you meant 'requirements'" in message
    assert found(recipe) == []
    assert found(make(base=base(), waivers=[waiver()]), checks=["requirements"]) == []


@pytest.mark.parametrize(
    ("expires", "words"),
    [
        ("2026-10-15", "expired on 2026-10-15"),
        ("2025-01-01", "expired"),
        ("2026-11-14", "expires on 2026-11-14"),
    ],
)
def test_an_old_waiver_is_a_warning(make, expires, words):
    ((severity, _, subject, message),) = found(make(base=base(), waivers=[waiver(expires=expires)]))
    assert (severity, subject) == ("warning", "waivers[0].expires")
    assert words in message


def test_a_waiver_is_written_once(make):
    ((severity, _, subject, _),) = found(
        make(base=base(), waivers=[waiver(), waiver(reason="another reason")])
    )
    assert (severity, subject) == ("error", "waivers[1]")


def test_an_entry_point_group_that_vllm_does_not_load_is_a_warning(make):
    recipe = make(base=base(), plugin={"entry_points": ["vllm.platform_plugin", "vllm.general_plugins"]})
    ((severity, _, subject, message),) = found(recipe)
    assert (severity, subject) == ("warning", "plugin.entry_points[0]")
    assert "perhaps you meant 'vllm.platform_plugins'" in message


def test_errors_come_before_warnings(make):
    recipe = make(
        base=base(), waivers=[waiver(expires="2026-10-16")], image={"repository": "x.example/y", "tag": "a"}
    )
    assert [item[0] for item in found(recipe)] == ["error", "warning"]
