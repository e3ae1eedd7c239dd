from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flbuild.cli.app import app
from flbuild.errors import UsageError, VerificationError
from flbuild.lock.io import read_lock, write_lock
from flbuild.lock.model import Lock, LockedFile, LockedImage

RECIPES = Path(__file__).parents[3] / "recipes"


def a_lock(version):
    file = LockedFile(
        name="six",
        version=version,
        index="pypi",
        filename=f"six-{version}-py3-none-any.whl",
        sha256="1" * 64,
        size=1,
    )
    digest = "sha256:" + "2" * 64
    return Lock(
        images={"demo": LockedImage(recipe=digest, platform="linux/amd64", python="3.11", packages=(file,))}
    )


@pytest.fixture
def project(tmp_path, monkeypatch):
    (tmp_path / "recipes").mkdir()
    for path in RECIPES.glob("*.yaml"):
        (tmp_path / "recipes" / path.name).write_text(path.read_text())
    monkeypatch.chdir(tmp_path)
    write_lock(tmp_path / "images.lock", a_lock("1.0"))
    git = ["git", "-c", "user.name=x", "-c", "user.email=x"]
    for arguments in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "x"]):
        subprocess.run([*git, *arguments], check=True)
    write_lock(tmp_path / "images.lock", a_lock("2.0"))
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(app, ["diff", *arguments], catch_exceptions=False)


def test_a_lock_is_compared_with_the_one_of_a_revision(project):
    found = run("lock:HEAD", "lock:images.lock").stdout
    assert "demo: packages:\n  ~ six 1.0 six-1.0-py3-none-any.whl" in found
    assert "-> 2.0 six-2.0-py3-none-any.whl" in found
    assert read_lock(project / "images.lock").images["demo"].packages[0].version == "2.0"


def test_recipes_are_compared_by_what_they_mean(project):
    found = run("recipe:cpu", "recipe:cuda").stdout
    assert "  ~ name cpu -> cuda\n" in found
    assert "summary" not in found
    assert run("recipe:cpu", "recipe:cpu").stdout == "no difference\n"


def test_json_names_every_change(project):
    (change,) = json.loads(run("lock:HEAD", "lock:images.lock", "--json").stdout)
    assert (change["section"], change["name"], change["kind"]) == ("demo: packages", "six", "changed")


def test_a_difference_is_an_error_only_if_that_is_asked_for(project):
    assert run("lock:HEAD", "lock:images.lock").exit_code == 0
    with pytest.raises(VerificationError, match="differ in 1 points"):
        run("lock:HEAD", "lock:images.lock", "--exit-code")


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("recipe:cpu", "lock:HEAD", "different kinds"),
        ("lock:absent", "lock:HEAD", "neither a file nor a revision"),
        ("lock:--help", "lock:HEAD", "neither a file nor a revision"),
        ("recipe:cpuu", "recipe:cpu", "perhaps you meant 'cpu'"),
    ],
)
def test_what_cannot_be_compared_is_explained(project, before, after, words):
    with pytest.raises(UsageError, match=words):
        run(before, after)
