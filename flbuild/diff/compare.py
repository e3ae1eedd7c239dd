"""Two sides, section by section."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

Side = Mapping[str, Mapping[str, str]]
"""Sections in the order they are shown, each with names and what stands there, in words."""


@dataclass(frozen=True)
class Change:
    """A name of a section that stands on one side only, or for something else on the other."""

    section: str
    name: str
    before: str | None
    after: str | None

    @property
    def kind(self) -> str:
        """`added`, `removed` or `changed`."""
        if self.before is None:
            return "added"
        return "removed" if self.after is None else "changed"


def compare(before: Side, after: Side) -> Iterator[Change]:
    """Every difference, by section and name. A section that one side does not have is empty there."""
    for section in dict.fromkeys((*before, *after)):
        old, new = before.get(section, {}), after.get(section, {})
        for name in sorted(old.keys() | new.keys()):
            if old.get(name) != new.get(name):
                yield Change(section, name, old.get(name), new.get(name))
