from __future__ import annotations

import json

import pytest
import typer
from typer.testing import CliRunner

from flbuild.cli import lock as cli
from flbuild.cli.context import Context
from flbuild.errors import LockStaleError, UsageError
from flbuild.lock.io import read_lock, write_lock
from flbuild.lock.model import Lock, LockedFile, LockedImage, Unresolved
from flbuild.lock.tools import tool_requirements
from flbuild.progress import Silent
from flbuild.project import Project
from flbuild.recipe.canonical import canonical_hash
from flbuild.recipe.load import load_recipe

RECIPE = """\
schema: 1
name: NAME
summary: a small image
platform: linux/amd64
python: {version: "3.11", site_packages: /usr/lib/python3/dist-packages}
base: {image: quay.io/team/base:v1, provides: {vllm: 0.28.0}}
vllm: {version: 0.28.0, device: cuda}
packages: [{name: numpy, version: 1.26.4}]
targets: {release: {}}
image: {repository: example.org/team/demo, tag: "NAME-{target}"}
"""


class LoudSilent(Silent):
    def __init__(self):
        super().__init__()
        self.lines = []

    def info(self, text):
        self.lines.append(text)


def a_file(name, version):
    filename = f"{name}-{version}-py3-none-any.whl"
    return LockedFile(name=name, version=version, index="pypi", filename=filename, sha256="1" * 64, size=1)


def an_entry(recipe, version="1.26.4"):
    missing = Unresolved(name="quay.io/team/base", version="v1", source="quay.io", reason="it was not asked")
    return LockedImage(
        recipe=canonical_hash(recipe),
        platform="linux/amd64",
        python="3.11",
        packages=(a_file("numpy", version),),
        unresolved=(missing,),
    )


@pytest.fixture
def project(tmp_path):
    """A project of two recipes; the lock holds what they ask for."""
    (tmp_path / "recipes").mkdir()
    for name in ("one", "two"):
        (tmp_path / "recipes" / f"{name}.yaml").write_text(RECIPE.replace("NAME", name))
    project = Project(tmp_path)
    tools = []
    for requirement in tool_requirements():
        name, _, version = requirement.partition(",")[0].partition(">=")
        tools.append(a_file(name, version or "1.0"))
    images = {name: an_entry(load_recipe(project.recipe_path(name))) for name in ("one", "two")}
    write_lock(project.lock_path, Lock(build_tools=tuple(tools), images=images))
    return project


@pytest.fixture
def run(project, make_settings, monkeypatch):
    """`run("--check", ...)`: the command in that project; `run.progress` holds what went to stderr."""
    progress = LoudSilent()
    monkeypatch.setattr(cli, "open_context", lambda: Context(project, make_settings(), progress))
    app = typer.Typer()
    app.command()(cli.lock)

    def invoke(*arguments):
        return CliRunner().invoke(app, list(arguments))

    invoke.progress = progress
    return invoke


def edit(project, name, old, new):
    path = project.recipe_path(name)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_a_lock_that_agrees_passes_and_prints_nothing_on_stdout(run):
    result = run("--check")
    assert result.exit_code == 0
    assert result.stdout == ""
    assert any("agrees with one, two" in line for line in run.progress.lines)
    assert any("quay.io/team/base v1 is unresolved" in text for text in run.progress.warnings)


def test_b70_an_edited_recipe_exits_3_and_is_named(project, run):
    edit(project, "two", "1.26.4", "2.0.0")
    result = run("--check")
    assert isinstance(result.exception, LockStaleError)
    assert result.exception.exit_code == 3
    assert "two: numpy: the recipe pins 2.0.0, the lock 1.26.4" in str(result.exception)
    assert run("--check", "one").exit_code == 0


def test_an_entry_without_a_recipe_is_a_difference_when_all_are_checked(project, run):
    project.recipe_path("two").unlink()
    assert "no such recipe" in str(run("--check").exception)
    assert run("--check", "one").exit_code == 0


def test_build_tools_that_are_not_those_of_this_flbuild_are_a_difference(project, run):
    lock = read_lock(project.lock_path)
    write_lock(project.lock_path, lock.model_copy(update={"build_tools": lock.build_tools[1:]}))
    assert "build tools" in str(run("--check").exception)


def test_differences_can_be_had_as_json(project, run):
    edit(project, "two", "1.26.4", "2.0.0")
    answer = json.loads(run("--check", "--json").stdout)
    assert answer["agrees"] is False
    assert list(answer["differences"]) == ["two"]


def test_a_check_takes_no_option_that_changes_something(run):
    result = run("--check", "--upgrade", "numpy")
    assert isinstance(result.exception, UsageError)
    assert "--upgrade" in str(result.exception)


@pytest.fixture
def locking(project, monkeypatch):
    """Replaces the locking itself; holds what it was asked for, and moves numpy of `one`."""
    asked = {}

    def fake(where, names, options, services, *, dry_run=False):
        asked.update(names=names, options=options, dry_run=dry_run, offline=services)
        lock = read_lock(where.lock_path)
        moved = an_entry(load_recipe(where.recipe_path("one")), "1.26.5")
        return lock.model_copy(update={"images": {**lock.images, "one": moved}})

    monkeypatch.setattr(cli, "lock_images", fake)
    monkeypatch.setattr(cli, "make_services", lambda settings, progress, *, offline: offline)
    return asked


def test_every_recipe_is_locked_when_none_is_named(run, locking):
    result = run()
    assert result.exit_code == 0
    assert result.stdout == ""
    assert locking["names"] == ("one", "two")
    assert "one: 1 packages, 0 built from source, 1 unresolved" in run.progress.lines


def test_options_reach_the_locking(run, locking):
    run("two", "--upgrade", "Num_Py", "--offline", "--allow-missing", "--refresh-base", "--allow-kind-change")
    assert locking["names"] == ("two",)
    assert locking["options"].upgrade == {"num-py"}
    assert locking["options"].allow_missing
    assert locking["options"].refresh_base
    assert locking["options"].allow_kind_change
    assert locking["offline"] is True


def test_a_dry_run_prints_the_change(run, locking):
    result = run("--dry-run")
    assert locking["dry_run"] is True
    assert "-    - {name: numpy, version: 1.26.4" in result.stdout
    assert "+    - {name: numpy, version: 1.26.5" in result.stdout


def test_a_summary_can_be_had_as_json(run, locking):
    answer = json.loads(run("one", "--json").stdout)
    assert answer["changed"] is True
    assert answer["images"]["one"]["packages"] == 1
    assert answer["images"]["one"]["unresolved"][0]["source"] == "quay.io"
