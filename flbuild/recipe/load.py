"""From a file to a Recipe, or to one message with file, line, key and cause for each mistake."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from flbuild.recipe.document import Document, InvalidRecipeError, Problem, read_document
from flbuild.recipe.explain import explain
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
        raise InvalidRecipeError(document, explain(error, document)) from None
    if recipe.name != path.stem:
        problem = Problem(("name",), f"is '{recipe.name}', but the file is called {path.name}")
        raise InvalidRecipeError(document, [problem])
    return LoadedRecipe(recipe, document)
