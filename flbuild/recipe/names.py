"""Matching distribution names against the patterns of `forbid`."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase


def forbidden_by(name: str, patterns: Iterable[str]) -> str | None:
    """The first pattern that forbids the distribution `name` (in normal form), or None.

    Patterns are shell globs; case, `_`, `-` and `.` differ no more than they do in names.
    """
    return next((pattern for pattern in patterns if fnmatchcase(name, _normal(pattern))), None)


def _normal(pattern: str) -> str:
    # Brackets hold sets of characters, where a hyphen is a range.
    return pattern.lower() if "[" in pattern else pattern.lower().replace("_", "-").replace(".", "-")
