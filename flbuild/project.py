"""Finding the project: the folder that holds `recipes/`, upward from where the command runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from flbuild.errors import UsageError
from flbuild.suggest import perhaps


@dataclass(frozen=True)
class Project:
    """The files of one project; nothing is read until asked for."""

    root: Path

    @property
    def recipes(self) -> Path:
        """The folder of recipes."""
        return self.root / "recipes"

    @property
    def templates(self) -> Path:
        """The folder of the project's own templates."""
        return self.root / "templates"

    @property
    def lock_path(self) -> Path:
        """The lock file, whether or not it exists."""
        return self.root / "images.lock"

    def recipe_names(self) -> tuple[str, ...]:
        """Names of all recipes, sorted."""
        return tuple(sorted(path.stem for path in self.recipes.glob("*.yaml") if path.is_file()))

    def recipe_path(self, name: str) -> Path:
        """The file of the recipe `name`.

        Raises:
            UsageError: there is no such recipe.
        """
        names = self.recipe_names()
        if name not in names:
            misnamed = self.recipes / f"{name}.yml"
            raise UsageError(
                f"no recipe '{name}' in {self.recipes}{perhaps(name, names)}",
                cause=f"{misnamed.name} is there, but recipes end in .yaml" if misnamed.is_file() else None,
                remedy="flbuild recipe list",
            )
        return self.recipes / f"{name}.yaml"


def find_project(start: Path) -> Project:
    """The project that `start` is in.

    Raises:
        UsageError: no folder from `start` upward holds a folder `recipes` with a recipe in it.
    """
    start = start.absolute()
    for folder in (start, *start.parents):
        project = Project(folder)
        if project.recipe_names():
            return project
    raise UsageError(
        f"no flbuild project in {start} or above it",
        cause="a project is a folder that holds recipes/NAME.yaml",
        remedy="change into the project's folder and run the command again",
    )
