from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flbuild.cli.app import app
from flbuild.errors import LockStaleError

ROOT = Path(__file__).parents[3]


@pytest.fixture
def page(tmp_path, monkeypatch):
    """The page of cpu, not written yet, in a copy of this project."""
    for name in ("recipes", "templates"):
        shutil.copytree(ROOT / name, tmp_path / name)
    for name in ("images.lock", "plugin/pyproject.toml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "docs" / "images" / "cpu.md"


def run(*arguments):
    return CliRunner().invoke(app, ["document", *arguments], catch_exceptions=True)


def test_it_writes_the_page_once_and_says_where(page):
    first, second = run("cpu", "--json"), run("cpu", "--json")
    assert json.loads(first.stdout) == {"page": str(page), "changed": True}
    assert json.loads(second.stdout) == {"page": str(page), "changed": False}
    assert page.read_text().startswith("<!-- Written by `flbuild document cpu`")


def test_check_writes_nothing_and_fails_where_the_page_is_missing(page):
    result = run("cpu", "--check")
    assert isinstance(result.exception, LockStaleError)
    assert result.exception.remedy == "flbuild document cpu"
    assert not page.exists()


def test_check_fails_where_somebody_edited_the_page(page):
    run("cpu")
    assert run("cpu", "--check").exit_code == 0
    page.write_text(page.read_text() + "more\n")
    assert isinstance(run("cpu", "--check").exception, LockStaleError)


def test_another_file_can_be_named_and_the_remedy_names_it_too(page, tmp_path):
    result = run("cpu", "--output", str(tmp_path / "x.md"), "--check")
    assert result.exception.remedy == f"flbuild document cpu --output {tmp_path / 'x.md'}"
