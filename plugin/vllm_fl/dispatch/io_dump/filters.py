"""Which calls are recorded."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """A module that is running."""

    path: str
    """Dotted name in the model."""
    kind: str
    """Name of its class."""


@dataclass(frozen=True)
class Filters:
    """Conditions that must all hold. An empty one always does."""

    ops: tuple[str, ...] = ()
    """Operators, with or without their library: ``mm`` or ``aten.mm``."""
    modules: tuple[str, ...] = ()
    """Classes, one of which must be running."""
    layers: tuple[str, ...] = ()
    """Layer numbers (``3``, ``0-2``), or globs of a module's dotted name, one of which must be running."""
    steps: tuple[int, int] | None = None
    """First and last step."""
    max_calls: int = 0
    """Calls per operator; 0: all."""

    def wants_step(self, step: int) -> bool:
        return self.steps is None or self.steps[0] <= step <= self.steps[1]

    def wants(self, op: str, running: Sequence[Place]) -> bool:
        """``running``: the modules that are running, outermost first."""
        if self.ops and not {op, op.rpartition(".")[2]} & set(self.ops):
            return False
        if self.modules and not any(place.kind in self.modules for place in running):
            return False
        return not self.layers or any(_in_layer(spec, place) for spec in self.layers for place in running)


def _in_layer(spec: str, place: Place) -> bool:
    span = re.fullmatch(r"(\d+)(?:-(\d+))?", spec)
    if span is None:
        return fnmatch.fnmatchcase(place.path, spec)
    first, last = int(span[1]), int(span[2] or span[1])
    return any(first <= int(part) <= last for part in place.path.split(".") if part.isdecimal())
