"""How large an image is, layer by layer and distribution by distribution, against its recipe's budget."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass

from flbuild.errors import VerificationError
from flbuild.lock.model import LockedBase
from flbuild.verify.context import installed_in
from flbuild.verify.record import rows
from flbuild.verify.subject import Subject
from flbuild.verify.view import FileView


@dataclass(frozen=True)
class Layer:
    """A layer with its compressed size."""

    digest: str
    size: int
    base: bool


@dataclass(frozen=True)
class Sizes:
    """Compressed bytes of an image's layers, and what the recipe allows above the base."""

    layers: tuple[Layer, ...]
    budget: int | None

    @property
    def above(self) -> int:
        """Of the layers above the base."""
        return sum(layer.size for layer in self.layers if not layer.base)

    @property
    def total(self) -> int:
        """Of all layers."""
        return sum(layer.size for layer in self.layers)


def measure(subject: Subject, base: LockedBase | None, budget: int | None) -> Sizes:
    """What the manifest says; no layer is read."""
    below = set() if base is None else {layer.digest for layer in base.layers}
    layers = (Layer(layer.digest, layer.size, layer.digest in below) for layer in subject.layers)
    return Sizes(tuple(layers), budget)


def distributions(view: FileView) -> Iterator[tuple[str, str, int]]:
    """Name, version and unpacked bytes of every distribution by its RECORD, largest first."""
    found = []
    for item in installed_in(view):
        content = view.contents.get(f"{item.info}/RECORD", b"")
        files = (view.get(row.path) for row in rows(content, posixpath.dirname(item.info)))
        found.append((item.name, item.version, sum(file.size for file in files if file is not None)))
    yield from sorted(found, key=lambda item: (-item[2], item[0]))


def require_within_budget(sizes: Sizes, name: str) -> None:
    """Nothing if the layers above the base are within the budget, or there is none.

    Raises:
        VerificationError: they are not.
    """
    if sizes.budget is not None and sizes.above > sizes.budget:
        raise VerificationError(
            f"{name}: {sizes.above} bytes above the base, {sizes.above - sizes.budget} more than its budget",
            cause="a distribution was added or grew: `--largest 10` lists the largest",
            remedy="take something out, or raise size_budget in the recipe",
        )
