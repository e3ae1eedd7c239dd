from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from flbuild.cli.recipe import app
from flbuild.errors import RecipeError, UsageError

RECIPES = Path(__file__).parents[3] / "recipes"


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A copy of the committed recipes, with the current folder below it."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    root = tmp_path / "project"
    shutil.copytree(RECIPES, root / "recipes")
    (root / "below").mkdir()
    monkeypatch.chdir(root / "below")
    return root


@pytest.fixture
def run(project):
    def invoke(*arguments):
        return CliRunner().invoke(app, arguments)

    return invoke


def edit(project, name, old, new):
    path = project / "recipes" / f"{name}.yaml"
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


def test_list_shows_every_recipe_in_columns(run):
    lines = run("list").stdout.splitlines()
    assert lines[0].split() == ["name", "platform", "vllm", "targets", "summary"]
    assert [line.split()[0] for line in lines[1:]] == ["ascend", "cpu", "cuda"]
    assert len({line.index("linux/") for line in lines[1:]}) == 1


def test_list_is_json_on_request(run):
    recipes = json.loads(run("list", "--json").stdout)
    assert recipes[0]["name"] == "ascend"
    assert recipes[0]["platform"] == "linux/arm64"
    assert recipes[2]["vllm"] == "0.28.0"


def test_show_prints_the_recipe_as_understood(run):
    shown = yaml.safe_load(run("show", "cpu").stdout)
    assert shown["vllm"]["installs_as"] == "0.28.0+empty"
    assert set(shown["targets"]["ci"]["packages"]) < set(shown["targets"]["dev"]["packages"])
    assert json.loads(run("show", "cpu", "--json").stdout) == shown


def test_check_passes_on_the_committed_recipes(run):
    result = run("check")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert list(dict.fromkeys(line.split(":")[0] for line in lines)) == [
        f"recipes/{name}.yaml" for name in ("ascend", "cpu", "cuda")
    ]
    # A waiver that nears its end is a warning, and days pass: only errors would be wrong here.
    assert not [line for line in lines if ": error: " in line]


def test_check_names_the_line_of_an_unknown_key_and_fails_with_2(run, project):
    edit(project, "ascend", "\nworkdir:", "\nworkdri:")
    result = run("check", "ascend")
    line = (project / "recipes" / "ascend.yaml").read_text().splitlines().index("workdri: /workspace") + 1
    message = f"recipes/ascend.yaml:{line}: error: workdri: unknown key; perhaps you meant 'workdir'"
    assert result.stdout.splitlines() == [message]
    assert isinstance(result.exception, RecipeError)
    assert result.exception.exit_code == 2
    assert str(result.exception).startswith(f"recipes/ascend.yaml:{line}: workdri: unknown key")


def test_check_goes_on_after_a_broken_recipe(run, project):
    edit(project, "ascend", "schema: 1", "schema: 9")
    edit(project, "cuda", "index: flagos, provides", "index: flagosx, provides")
    result = run("check")
    assert [line.split(":")[0] for line in result.stdout.splitlines()] == [
        "recipes/ascend.yaml", "recipes/cpu.yaml", "recipes/cuda.yaml",
    ]  # fmt: skip
    assert "(the first of 2 errors)" in result.exception.what
    assert result.exception.remedy == "edit the file, then: flbuild recipe check ascend cuda"


def test_check_is_json_on_request_also_when_it_fails(run, project):
    edit(project, "cpu", "schema: 1", "schema: 9")
    result = run("check", "--json", "cpu")
    (recipe,) = json.loads(result.stdout)["recipes"]
    assert recipe["ok"] is False
    assert recipe["findings"][0]["line"] == 5
    assert isinstance(result.exception, RecipeError)


def test_an_index_of_the_project_is_known_to_check(run, project):
    edit(project, "cuda", "index: flagos, provides", "index: team, provides")
    assert isinstance(run("check", "cuda").exception, RecipeError)
    (project / "flbuild.toml").write_text('[index.team]\nurl = "https://team.example/simple"\n')
    assert run("check", "cuda").exit_code == 0


def test_an_unknown_name_is_a_usage_error(run):
    result = run("check", "ascned")
    assert isinstance(result.exception, UsageError)
    assert "perhaps you meant 'ascend'" in str(result.exception)


def test_schema_is_printed_outside_a_project_too(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert json.loads(run("schema").stdout)["title"] == "Recipe"


def test_schema_check_notices_an_old_file_and_write_renews_it(run, project):
    path = project / "recipes" / "recipe.schema.json"
    assert run("schema", "--check").exit_code == 0
    path.write_text(path.read_text().replace("Recipe", "Recipes", 1))
    stale = run("schema", "--check")
    assert isinstance(stale.exception, RecipeError)
    assert stale.exception.remedy == "flbuild recipe schema --write"
    assert run("schema", "--write").exit_code == 0
    assert run("schema", "--check").exit_code == 0
    path.unlink()
    assert isinstance(run("schema", "--check").exception, RecipeError)


def test_schema_check_and_write_exclude_each_other(run):
    assert isinstance(run("schema", "--check", "--write").exception, UsageError)


def test_check_knows_the_checks_that_a_waiver_may_name(run, project):
    edit(project, "cpu", "check: requirements", "check: requirement")
    done = run("check", "cpu")
    assert isinstance(done.exception, RecipeError)
    assert "there is no check 'requirement'; perhaps you meant 'requirements'" in str(done.exception)
