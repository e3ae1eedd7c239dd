from __future__ import annotations

import json

import pytest
import typer
from typer.testing import CliRunner

from flbuild.cli import doctor as cli
from flbuild.errors import HostError
from flbuild.finding import Finding

GOOD = Finding("info", "git", "git", "2.39")
LACKS = Finding("warning", "buildx", "docker buildx", "it is not installed", "install it")
FAILS = Finding("error", "uv", "uv", "it does not run", "pip install uv")


@pytest.fixture
def run(tmp_path, monkeypatch):
    """`run(findings, ARGUMENT, ...)`: flbuild doctor where these are found; `.machine` was examined."""
    monkeypatch.chdir(tmp_path)
    app = typer.Typer()
    app.command()(cli.doctor)

    def invoke(findings, *arguments):
        def examine(machine):
            invoke.machine = machine
            return findings

        monkeypatch.setattr(cli, "examine", examine)
        return CliRunner().invoke(app, list(arguments))

    return invoke


def test_what_lacks_is_shown_with_its_remedy_and_is_no_failure(run):
    done = run([GOOD, LACKS])
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        "ok     git: git: 2.39",
        "lacks  buildx: docker buildx: it is not installed",
        "       next: install it",
    ]


def test_what_stops_the_main_job_fails_with_exit_code_10(run):
    done = run([FAILS])
    assert isinstance(done.exception, HostError)
    report = json.loads(run([GOOD, FAILS], "--json").stdout)
    assert report["able"] is False
    assert report["findings"][1]["remedy"] == "pip install uv"


def test_it_works_outside_of_a_project(run):
    assert run([GOOD]).exit_code == 0
    assert run.machine.recipes == ()


def test_a_broken_recipe_is_a_finding_not_the_end(run, tmp_path):
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "demo.yaml").write_text("schema: 2\n")
    done = run([GOOD])
    assert done.exit_code == 0
    assert "lacks  recipes: demo: recipes/demo.yaml" in done.stdout
