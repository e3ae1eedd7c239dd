from __future__ import annotations

import pytest

from flbuild.errors import RecipeError, UsageError
from flbuild.recipe.targets import expand_target, target_chain


def test_what_a_target_extends_comes_first(make):
    recipe = make(
        targets={
            "a": {"packages": ["x", "y"]},
            "b": {"extends": "a", "packages": ["z", "x"]},
            "c": {"extends": "b"},
        }
    )
    assert expand_target(recipe, "c").packages == ("x", "y", "z")
    assert expand_target(recipe, "c").extends is None
    assert target_chain(recipe, "c") == ("c", "b", "a")


def test_the_nearest_size_budget_counts(make):
    recipe = make(
        targets={"a": {"size_budget": 1}, "b": {"extends": "a"}, "c": {"extends": "b", "size_budget": 2}}
    )
    assert expand_target(recipe, "b").size_budget == 1
    assert expand_target(recipe, "c").size_budget == 2


def test_an_unknown_target_is_a_usage_error_that_suggests(make):
    with pytest.raises(UsageError, match="no target 'releas'; perhaps you meant 'release'"):
        expand_target(make(), "releas")


def test_extending_an_unknown_target_names_its_key(make):
    recipe = make(targets={"release": {}, "ci": {"extends": "releese"}})
    with pytest.raises(
        RecipeError, match=r"targets\.ci\.extends: unknown target 'releese'; perhaps you meant 'release'"
    ):
        expand_target(recipe, "ci")


@pytest.mark.parametrize("circle", [{"a": {"extends": "a"}}, {"a": {"extends": "b"}, "b": {"extends": "a"}}])
def test_a_circle_is_an_error_and_ends(make, circle):
    with pytest.raises(RecipeError, match="a circle: a -> "):
        expand_target(make(targets=circle), "a")
