"""What this repository's plugin requires: part of the closure, although the plugin is never locked."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

from flbuild.errors import RecipeError
from flbuild.index.wheels import pinned
from flbuild.recipe.model import Recipe
from flbuild.settings.toml import TomlError, parse_toml


def plugin_requirements(root: Path, recipe: Recipe) -> tuple[str, ...]:
    """The dependencies in the plugin's pyproject.toml; none if it has no such file.

    Raises:
        RecipeError: the file cannot be read, or the plugin pins what the recipe or its base settles.
    """
    path = root / recipe.plugin.path / "pyproject.toml"
    if not path.is_file():
        return ()
    place = path.relative_to(root)
    try:
        project = parse_toml(path.read_text(encoding="utf-8")).get("project", {})
        requires = tuple(str(Requirement(text)) for text in project.get("dependencies", ()))
    except (TomlError, InvalidRequirement) as error:
        raise RecipeError(f"{place} cannot be read", cause=str(error)) from error
    refuse_pins(str(place), requires, recipe)
    return requires


def refuse_pins(place: str, requires: Iterable[str], recipe: Recipe) -> None:
    """Nothing if the plugin leaves alone what a recipe decides.

    Raises:
        RecipeError: it pins such a distribution; two owners of one version end in a broken image.
    """
    settled = {*recipe.base.provides, *(package.name for package in recipe.packages), "vllm", "torch"}
    if found := pinned(requires, settled):
        raise RecipeError(
            f"{place}: the plugin pins {', '.join(found)}, which is the recipe's to decide",
            remedy=f"allow a range in {place}, and pin the version in recipes/{recipe.name}.yaml",
        )
