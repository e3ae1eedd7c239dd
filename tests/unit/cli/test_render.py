from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
import typer
from typer.testing import CliRunner

from flbuild.cli import render as cli
from flbuild.cli.context import Context
from flbuild.errors import HostError, LockStaleError, UsageError
from flbuild.progress import Silent
from flbuild.project import Project
from flbuild.render.supply import Supplied


class Rendering:
    """A renderer of one Dockerfile; `supplied` is what its context could get."""

    text = b"FROM scratch\n"
    supplied = Supplied()

    def __init__(self, *given, **named):
        pass

    def stages(self, recipe, lock, target, commit):
        return SimpleNamespace(targets=[SimpleNamespace(plan=SimpleNamespace(target=target or "release"))])

    def texts(self, stages):
        return {"Dockerfile": self.text}

    def supply(self, platform):
        return SimpleNamespace(get=lambda wanted, archives: self.supplied)


@pytest.fixture
def progress():
    return Silent()


@pytest.fixture
def run(tmp_path, make_settings, monkeypatch, progress):
    """`run(ARGUMENT, ...)`: flbuild render demo --output out, with more arguments."""
    context = Context(Project(tmp_path), make_settings(), progress)
    recipe = SimpleNamespace(platform="linux/amd64")
    monkeypatch.setattr(cli, "open_context", lambda: context)
    monkeypatch.setattr(cli, "load_inputs", lambda project, name: SimpleNamespace(recipe=recipe, lock=None))
    monkeypatch.setattr(cli, "Renderer", Rendering)
    monkeypatch.setattr(cli, "wanted_files", lambda stages: ())
    monkeypatch.chdir(tmp_path)
    app = typer.Typer()
    app.command()(cli.render)
    return lambda *arguments: CliRunner().invoke(app, ["demo", "--output", "out", *arguments])


def test_the_dockerfile_is_written_and_named(run, tmp_path):
    done = run()
    assert done.stdout == "out/Dockerfile\n"
    assert (tmp_path / "out" / "Dockerfile").read_bytes() == Rendering.text
    assert json.loads(run("--json", "--target", "ci").stdout) == {
        "dockerfile": "out/Dockerfile",
        "missing": [],
        "targets": ["ci"],
    }


def test_what_lacks_is_warned_of_once_per_reason_with_the_next_command(run, progress, monkeypatch):
    error = HostError("mmdebstrap is not installed", remedy="apt-get install mmdebstrap")
    monkeypatch.setattr(Rendering, "supplied", Supplied({}, {"base/root.tar.gz": error, "other": error}))
    assert run().exit_code == 0
    (warning,) = progress.warnings
    assert "it lacks base/root.tar.gz, other: mmdebstrap is not installed" in warning
    assert "apt-get install mmdebstrap, then" in warning
    assert "flbuild render demo --output out" in warning


def test_check_compares_and_writes_nothing(run, tmp_path):
    done = run("--check")
    assert isinstance(done.exception, LockStaleError)
    assert "Dockerfile: is missing" in str(done.exception)
    assert not (tmp_path / "out").exists()
    run()
    assert run("--check").exit_code == 0
    (tmp_path / "out" / "Dockerfile").write_text("FROM edited\n")
    assert "Dockerfile: differs" in str(run("--check").exception)


def test_files_of_somebody_else_are_refused_before_anything_is_done(run, tmp_path, monkeypatch):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "own").write_text("")
    monkeypatch.setattr(cli, "Renderer", None)
    assert isinstance(run().exception, UsageError)
