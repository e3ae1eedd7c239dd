from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from flbuild.cli import verify as cli
from flbuild.cli.context import Context
from flbuild.errors import RemoteGoneError, VerificationError
from flbuild.finding import Finding
from flbuild.lock.model import Lock
from flbuild.progress import Silent
from flbuild.project import Project
from flbuild.verify.digest import Checked
from flbuild.verify.image import Match, Result

GOOD = Checked("example.org/demo:1", "demo", "release", "sha256:" + "1" * 64, "image")
GONE = Checked(
    "example.org/demo:2", "demo", "ci", "sha256:" + "2" * 64, "image", RemoteGoneError("it is gone")
)
ERROR = Finding("error", "packages", "numpy", "it is missing", "build again")
WARNING = Finding("warning", "wheels", "1 of 2", "not compared")


@pytest.fixture
def run(tmp_path, make_settings, monkeypatch):
    """`run(ARGUMENT, ...)` in a project of its own; an error it ends with is in `.exception`."""
    context = Context(Project(tmp_path), make_settings(pypi=str(tmp_path)), Silent())
    monkeypatch.setattr(cli, "open_context", lambda: context)
    monkeypatch.setattr(cli, "read_lock", lambda path: Lock())
    return lambda *arguments: CliRunner().invoke(cli.app, arguments)


@pytest.fixture
def image(monkeypatch):
    """`image(finding, ...)`: what verifying any image finds."""

    def make(*findings):
        subject = SimpleNamespace(manifest_digest="sha256:" + "1" * 64)
        match = Match("demo", "release", None)
        result = Result(match, findings, 2, 3, 1000, 58_798, 144)
        monkeypatch.setattr(cli, "open_subject", lambda *given: subject)
        monkeypatch.setattr(cli, "match_image", lambda *given: match)
        monkeypatch.setattr(cli, "verify_image", lambda *given, **named: result)

    return make


def test_digest_shows_every_image_and_fails_with_the_class_of_what_failed(run, monkeypatch):
    monkeypatch.setattr(cli, "verify_published", lambda lock, client: [GOOD, GONE])
    done = run("digest")
    assert isinstance(done.exception, RemoteGoneError)
    assert done.stdout.splitlines() == [
        f"{GOOD.digest}  example.org/demo:1  (demo release)  ok",
        f"{GONE.digest}  example.org/demo:2  (demo ci)  FAILED",
    ]


def test_digest_as_json_tells_errors_by_exit_code(run, monkeypatch):
    monkeypatch.setattr(cli, "verify_published", lambda lock, client: [GOOD, GONE])
    good, gone = json.loads(run("digest", "--json").stdout)
    assert (good["passed"], "error" in good) == (True, False)
    assert (gone["passed"], gone["exit_code"], gone["error"]) == (False, 5, "it is gone")


def test_digest_of_one_reference_asks_for_that(run, monkeypatch):
    monkeypatch.setattr(cli, "verify_reference", lambda text, lock, client: GOOD if text == "x" else None)
    assert run("digest", "x").exit_code == 0


def test_lock_shows_findings_and_fails_on_errors(run, monkeypatch):
    monkeypatch.setattr(cli, "verify_lock", lambda project, lock: [WARNING, ERROR])
    done = run("lock")
    assert isinstance(done.exception, VerificationError)
    assert "  error    numpy: it is missing" in done.stdout
    monkeypatch.setattr(cli, "verify_lock", lambda project, lock: [WARNING])
    assert run("lock").stdout.splitlines()[-1] == "images.lock agrees with the recipes"
    assert json.loads(run("lock", "--json").stdout)["passed"] is True


def test_image_passes_with_warnings_and_says_what_it_is(run, image):
    image(WARNING)
    done = run("image", "oci:build/demo")
    assert done.exit_code == 0
    assert done.stdout.splitlines()[-1] == "oci:build/demo is demo release as locked: sha256:" + "1" * 64


def test_image_as_json_says_what_was_read(run, image):
    image(ERROR)
    done = run("image", "oci:build/demo", "--json")
    assert isinstance(done.exception, VerificationError)
    report = json.loads(done.stdout)
    assert report["passed"] is False
    assert (report["layers"], report["layers_read"], report["bytes_read"]) == (3, 2, 1000)
    assert report["findings"][0]["subject"] == "numpy"
