from __future__ import annotations

from datetime import date

import pytest

from flbuild.errors import RecipeError
from flbuild.progress import Silent
from flbuild.recipe.report import load_checked, report_recipe
from flbuild.settings import load_settings


@pytest.fixture
def settings(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return load_settings(None, {})


def test_a_sound_recipe_is_one_line(write, minimal, settings):
    report = report_recipe(write(minimal), settings)
    assert report.lines() == ["recipes/tiny.yaml: ok"]
    assert report.as_json() == {"name": "tiny", "path": "recipes/tiny.yaml", "ok": True, "findings": []}


def test_findings_across_fields_have_the_line_of_their_key(write, minimal, settings):
    text = minimal.replace("index: flagos", "index: flagosx").replace("2.10.0+cpu", "2.11.0+cpu")
    report = report_recipe(write(text), settings)
    assert [placed.place for placed in report.errors()] == ["recipes/tiny.yaml:12", "recipes/tiny.yaml:16"]
    assert report.lines()[1].startswith(
        "recipes/tiny.yaml:16: error: packages[0].index: unknown index 'flagosx'"
    )
    assert report.as_json()["findings"][1]["line"] == 16
    assert report.as_json()["ok"] is False


def test_a_file_that_does_not_load_is_findings_too(write, minimal, settings):
    report = report_recipe(
        write(minimal.replace("schema: 1", "schema: 2").replace("name: tiny", "nam: tiny")), settings
    )
    assert [placed.line for placed in report.findings] == [1, 2]
    assert report.findings[1].text == "nam: unknown key; perhaps you meant 'name'"


def test_a_line_holds_place_severity_key_message_and_remedy(write, minimal, settings):
    report = report_recipe(write(minimal + "forbid: [ruff]\n"), settings)
    (line,) = report.lines()
    assert line.startswith("recipes/tiny.yaml:20: error: targets.dev.packages[0]: ruff is required here")
    assert line.endswith("forbidden by 'ruff' (drop one of the two)")


def test_broken_yaml_is_placed_on_its_own_line(write, minimal, settings):
    report = report_recipe(write(minimal + "name: again\n"), settings)
    assert report.lines() == [
        "recipes/tiny.yaml:24: error: key 'name' is there twice, first on line 2; keep one"
    ]


def test_a_report_does_not_repeat_a_credential(write, minimal, settings):
    text = minimal.replace("[pytest]", '["pytest @ https://me:hidden@x.example/y.whl"]')
    report = report_recipe(write(text), settings)
    assert report.errors()
    assert "hidden" not in f"{report.lines()}{report.as_json()}"


def test_a_warning_alone_fails_nothing(write, minimal, settings):
    text = minimal + "waivers: [{check: a, subject: b, reason: because of this, expires: 2026-01-01}]\n"
    report = report_recipe(write(text), settings, today=date(2026, 12, 1))
    assert report.errors() == []
    assert "warning: waivers[0].expires" in report.lines()[0]


def test_a_command_gets_the_recipe_and_its_user_the_warnings(write, minimal, settings):
    progress = Silent()
    path = write(
        minimal + "waivers: [{check: a, subject: b, reason: because of this, expires: 2020-01-01}]\n"
    )
    assert load_checked(path, settings, progress).name == "tiny"
    assert len(progress.warnings) == 1
    assert progress.warnings[0].startswith("recipes/tiny.yaml:24: ")


def test_a_command_stops_at_a_contradiction(write, minimal, settings):
    with pytest.raises(RecipeError, match=r"^recipes/tiny\.yaml:16: packages\[0\]: flag-tree is required"):
        load_checked(write(minimal + "forbid: [flag-tree]\n"), settings, Silent())
