"""From a file to a Recipe, or to one message with file, line, key and cause for each mistake."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from flbuild.errors import RecipeError
from flbuild.recipe.document import Document, Key, key_text, read_document
from flbuild.recipe.explain import Problem, explain
from flbuild.recipe.model import Recipe


@dataclass(frozen=True)
class LoadedRecipe:
    """A recipe with the document it came from, for messages about its keys."""

    recipe: Recipe
    document: Document


def load_recipe(path: Path) -> Recipe:
    """Load and validate one recipe.

    Raises:
        RecipeError: with every mistake in the file, each as `recipes/NAME.yaml:LINE: key: what is wrong`.
    """
    return load_with_lines(path).recipe


def load_with_lines(path: Path) -> LoadedRecipe:
    """Like `load_recipe`, and keeps where each key stands."""
    document = read_document(path)
    try:
        recipe = Recipe.model_validate(document.data)
    except ValidationError as error:
        raise _recipe_error(document, explain(error, document)) from None
    if recipe.name != path.stem:
        problem = Problem(("name",), f"is '{recipe.name}', but the file is called {path.name}")
        raise _recipe_error(document, [problem])
    return LoadedRecipe(recipe, document)


def problem_line(document: Document, key: Key, text: str) -> str:
    """One line of a report: place, key and what is wrong."""
    name = key_text(key)
    return f"{document.place(key)}: {name + ': ' if name else ''}{text}"


def _recipe_error(document: Document, problems: list[Problem]) -> RecipeError:
    lines = [problem_line(document, problem.key, problem.text) for problem in problems]
    return RecipeError(
        "\n".join(lines), remedy=f"edit the file, then: flbuild recipe check {document.path.stem}"
    )
