"""Targets with what they extend."""

from __future__ import annotations

from flbuild.errors import RecipeError, UsageError
from flbuild.recipe.model import Recipe, Target
from flbuild.suggest import perhaps


class ExtendsError(RecipeError):
    """A target extends an unknown one, or itself in a circle; `key` says where, `problem` what."""

    def __init__(self, recipe: Recipe, target: str, problem: str) -> None:
        self.key = f"targets.{target}.extends"
        self.problem = problem
        super().__init__(
            f"recipes/{recipe.name}.yaml: {self.key}: {problem}", remedy=f"flbuild recipe check {recipe.name}"
        )


def expand_target(recipe: Recipe, name: str) -> Target:
    """The target `name` on its own: what it extends comes first, each requirement once.

    The nearest size budget counts.

    Raises:
        UsageError: the recipe has no such target.
        ExtendsError: a target extends an unknown one, or itself in a circle.
    """
    if name not in recipe.targets:
        raise UsageError(
            f"recipe '{recipe.name}' has no target '{name}'{perhaps(name, recipe.targets)}",
            remedy=f"flbuild recipe show {recipe.name}",
        )
    chain = target_chain(recipe, name)
    packages = (package for link in reversed(chain) for package in recipe.targets[link].packages)
    budgets = (recipe.targets[link].size_budget for link in chain)
    return Target(
        packages=tuple(dict.fromkeys(packages)),
        size_budget=next((budget for budget in budgets if budget is not None), None),
    )


def target_chain(recipe: Recipe, name: str) -> tuple[str, ...]:
    """`name` and what it extends, nearest first.

    Raises:
        ExtendsError: a target extends an unknown one, or itself in a circle.
    """
    chain = [name]
    while (parent := recipe.targets[chain[-1]].extends) is not None:
        if parent not in recipe.targets:
            raise ExtendsError(
                recipe, chain[-1], f"unknown target '{parent}'{perhaps(parent, recipe.targets)}"
            )
        if parent in chain:
            raise ExtendsError(recipe, chain[-1], f"a circle: {' -> '.join([*chain, parent])}")
        chain.append(parent)
    return tuple(chain)
