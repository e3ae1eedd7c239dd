from __future__ import annotations

import json
from pathlib import Path

from flbuild.recipe.model import Recipe
from flbuild.recipe.schema import FILE_NAME, schema_text

COMMITTED = Path(__file__).parents[3] / "recipes" / FILE_NAME


def test_the_committed_schema_is_the_current_one():
    assert COMMITTED.read_text(encoding="utf-8") == schema_text()


def test_the_schema_refuses_unknown_keys_everywhere():
    schema = json.loads(schema_text())
    models = [schema, *(item for item in schema["$defs"].values() if item["type"] == "object")]
    assert len(models) >= 10
    assert all(model["additionalProperties"] is False for model in models)


def test_the_schema_names_keys_as_recipes_write_them():
    assert set(json.loads(schema_text())["required"]) == {
        "schema", "name", "summary", "platform", "python", "base", "vllm", "targets", "image",
    }  # fmt: skip
    assert "schema_version" in Recipe.model_fields
