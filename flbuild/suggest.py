"""One way to offer the word that was probably meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def closest(word: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """The known word nearest to `word`, or None when nothing is near."""
    names = {name.lower(): name for name in known}
    matches = get_close_matches(word.lower(), names, n=1, cutoff=cutoff)
    return names[matches[0]] if matches else None


def perhaps(word: str, known: Iterable[str]) -> str:
    """The end of a sentence: the nearest known word, else all of them when they are few, else nothing."""
    names = sorted(set(known))
    match = closest(word, names)
    if match is not None:
        return f"; perhaps you meant '{match}'"
    if names and len(names) <= 12:
        return f"; known: {', '.join(names)}"
    return ""
