from __future__ import annotations

from flbuild.doctor.check_tools import git, mmdebstrap, uv


def one(findings):
    (finding,) = findings
    return finding


def test_a_tool_that_runs_is_shown_with_its_version(machine):
    ready = machine(run={"git": "git version 2.39.5", "uv": "uv 0.13.9", "mmdebstrap": "mmdebstrap 1.3.5"})
    assert [one(check(ready)).message for check in (git, uv, mmdebstrap)] == ["2.39.5", "0.13.9", "1.3.5"]
    assert {one(check(ready)).severity for check in (git, uv, mmdebstrap)} == {"info"}


def test_git_and_uv_are_needed_everywhere(machine):
    assert one(git(machine())).severity == one(uv(machine())).severity == "error"
    assert one(git(machine())).remedy == "apt-get install git"


def test_mmdebstrap_is_needed_where_a_recipe_has_a_debian_base(machine, recipe):
    assert one(mmdebstrap(machine())).severity == "warning"
    found = one(mmdebstrap(machine(recipes=[recipe()])))
    assert (found.severity, found.remedy) == ("error", "apt-get install mmdebstrap")
    assert "demo" in found.message
    image = recipe(base={"image": "quay.io/team/base:v1"})
    assert one(mmdebstrap(machine(recipes=[image]))).severity == "warning"
