"""A recipe as it is understood: defaults filled in, targets expanded. Plain data for people and tools."""

from __future__ import annotations

from typing import Any

from flbuild.recipe.canonical import canonical_hash
from flbuild.recipe.model import Recipe
from flbuild.recipe.targets import expand_target


def resolved(recipe: Recipe) -> dict[str, Any]:
    """JSON values of every key, in the order of the model, with the canonical hash in front."""
    data = recipe.model_dump(mode="json", by_alias=True)
    data["vllm"]["installs_as"] = recipe.vllm.local_version
    for package in data["packages"]:
        if package["git"] is None:
            package["index"] = package["index"] or "pypi"
    data["targets"] = {
        name: expand_target(recipe, name).model_dump(mode="json", exclude={"extends"})
        for name in recipe.targets
    }
    return {"hash": canonical_hash(recipe), **_without_empty(data)}


def _without_empty(value: Any) -> Any:
    """Without keys that say nothing, such as an unset commit; an empty target stays, its name matters."""
    if isinstance(value, dict):
        return {
            key: _without_empty(item)
            for key, item in value.items()
            if item not in (None, [], {}) or key in ("packages", "targets")
        }
    if isinstance(value, list):
        return [_without_empty(item) for item in value]
    return value
