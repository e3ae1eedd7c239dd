from __future__ import annotations

import pytest

from flbuild.errors import UsageError
from flbuild.project import find_project


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "project"
    (folder / "recipes").mkdir(parents=True)
    for name in ("b.yaml", "a.yaml", "notes.md", "recipe.schema.json"):
        (folder / "recipes" / name).touch()
    (folder / "recipes" / "folder.yaml").mkdir()
    return folder


def test_the_project_is_found_upward(root):
    deep = root / "src" / "deep"
    deep.mkdir(parents=True)
    project = find_project(deep)
    assert project.root == root
    assert project.lock_path == root / "images.lock"
    assert project.templates == root / "templates"
    assert find_project(root / "recipes") == project


def test_a_nearer_folder_named_recipes_without_recipes_is_passed_over(root):
    (root / "docs" / "recipes").mkdir(parents=True)
    assert find_project(root / "docs").root == root


def test_a_relative_start_is_taken_from_the_current_folder(root, monkeypatch):
    from pathlib import Path

    monkeypatch.chdir(root)
    assert find_project(Path()).root == root


def test_no_project_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match="no flbuild project") as caught:
        find_project(tmp_path)
    assert caught.value.exit_code == 2


def test_recipes_are_listed_by_name(root):
    assert find_project(root).recipe_names() == ("a", "b")


def test_a_recipe_is_found_by_name(root):
    assert find_project(root).recipe_path("a") == root / "recipes" / "a.yaml"


@pytest.mark.parametrize("name", ["aa", "../a", "a.yaml", ""])
def test_an_unknown_recipe_is_a_usage_error(root, name):
    with pytest.raises(UsageError, match="no recipe") as caught:
        find_project(root).recipe_path(name)
    assert caught.value.remedy == "flbuild recipe list"


def test_a_near_miss_is_suggested(root):
    (root / "recipes" / "ascend.yaml").touch()
    with pytest.raises(UsageError, match="perhaps you meant 'ascend'"):
        find_project(root).recipe_path("ascned")


def test_the_wrong_ending_is_named_as_the_cause(root):
    (root / "recipes" / "npu.yml").touch()
    with pytest.raises(UsageError) as caught:
        find_project(root).recipe_path("npu")
    assert caught.value.cause == "npu.yml is there, but recipes end in .yaml"
