from __future__ import annotations

import time

import pytest

from flbuild.errors import RecipeError
from flbuild.plan.tag import expand_tag


def tag(recipe, facts, template, target="release", **changes):
    image = {"repository": "example.org/demo", "tag": template}
    return expand_tag(recipe(image=image), target, facts(**changes))


def test_every_field_is_filled_in(recipe, facts):
    found = tag(recipe, facts, "a-{vllm}-{target}-{revision}-{plugin}", version="1.2.0.post1+gabc")
    assert found == "a-0.28.0-release-0123456789ab-1.2.0.post1-gabc"


def test_the_day_is_the_commits_in_utc(recipe, facts, monkeypatch):
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")
    time.tzset()
    try:
        assert tag(recipe, facts, "{date}", epoch=1_767_225_599) == "20251231"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_copy_without_a_commit_says_so(recipe, facts):
    assert tag(recipe, facts, "demo-{revision}", revision=None) == "demo-unknown"


def test_a_tag_that_is_too_long_is_the_recipes_mistake(recipe, facts):
    with pytest.raises(RecipeError, match=r"recipes/demo\.yaml: image\.tag"):
        tag(recipe, facts, "x" * 100 + "-{plugin}", version="1" * 40)
