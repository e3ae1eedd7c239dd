"""The tag an image is published under."""

from __future__ import annotations

import re
from datetime import datetime, timezone

from flbuild.errors import RecipeError
from flbuild.recipe.model import Recipe
from flbuild.wheel.model import PluginFacts

_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_REVISION_SHOWN = 12


def expand_tag(recipe: Recipe, target: str, plugin: PluginFacts) -> str:
    """The recipe's template with its fields filled in; the day is the commit's, not today.

    Raises:
        RecipeError: what comes out is not a tag.
    """
    tag = recipe.image.tag.format(
        vllm=_plain(recipe.vllm.version),
        target=target,
        date=datetime.fromtimestamp(plugin.epoch, timezone.utc).strftime("%Y%m%d"),
        revision=(plugin.revision or "unknown")[:_REVISION_SHOWN],
        plugin=_plain(plugin.version),
    )
    if not _TAG.fullmatch(tag):
        raise RecipeError(
            f"recipes/{recipe.name}.yaml: image.tag makes '{tag}', which is not a tag",
            cause=f"a tag has at most 128 characters, this one {len(tag)}",
            remedy="shorten image.tag",
        )
    return tag


def _plain(version: str) -> str:
    """A version without the one character of PEP 440 that a tag must not hold."""
    return version.replace("+", "-").replace("!", "-")
