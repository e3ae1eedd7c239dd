"""Distributions that must not be in the image, by name or pattern."""

from __future__ import annotations

from collections.abc import Iterator

from flbuild.finding import Finding
from flbuild.recipe.names import forbidden_by
from flbuild.verify.context import Verification


def forbidden(verification: Verification) -> Iterator[Finding]:
    """Every installed distribution that the recipe forbids."""
    for item in verification.installed:
        pattern = forbidden_by(item.name, verification.recipe.forbid)
        if pattern is not None:
            yield Finding(
                "error",
                "forbidden",
                item.name,
                f"{item.version} is installed at /{item.info}, the recipe forbids '{pattern}'",
                "find what requires it, override that requirement in the recipe, and lock again",
            )
