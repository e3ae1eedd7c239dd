"""The JSON Schema of recipes, for editors and other tools."""

from __future__ import annotations

import json

from flbuild.recipe.model import Recipe

FILE_NAME = "recipe.schema.json"


def schema_text() -> str:
    """The schema as the committed file holds it."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Recipe.model_json_schema(by_alias=True, mode="validation"),
    }
    return json.dumps(schema, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
