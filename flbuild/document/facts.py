"""What the page of an image says, taken from recipe and lock and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from flbuild.lock.model import GitSource, LockedImage, LockedImageBase, LockedSource, Output
from flbuild.recipe.model import ImageBase, Recipe, Target
from flbuild.recipe.targets import expand_target
from flbuild.recipe.types import TAG_FIELDS

DIGITS = 12
"""Of a hash, enough to compare by eye; the lock has all of it."""


@dataclass(frozen=True)
class Row:
    """A distribution of the image: where it comes from, and what pins it."""

    name: str
    version: str
    origin: str
    pin: str


@dataclass(frozen=True)
class Facts:
    """Everything that the template asks for.

    Args:
        rows: what the recipe names, and what the base provides.
        others: how many distributions came with those.
        targets: each with all that it extends.
        published: outputs that have a reference, newest last.
        repository_tag: under which each target is published, with the fields that a build fills in by name.
    """

    recipe: Recipe
    locked: LockedImage
    base: str
    rows: tuple[Row, ...]
    others: int
    targets: dict[str, Target]
    published: tuple[Output, ...]
    repository_tag: str


def gather(recipe: Recipe, locked: LockedImage) -> Facts:
    """What the page of a recipe says; the two must agree."""
    rows = tuple(_rows(recipe, locked))
    named = {row.name for row in rows}
    return Facts(
        recipe=recipe,
        locked=locked,
        base=_base(recipe, locked),
        rows=rows,
        others=sum(pin.name not in named for pin in locked.packages),
        targets={name: expand_target(recipe, name) for name in recipe.targets},
        published=tuple(output for output in locked.outputs if output.reference is not None),
        repository_tag=f"{recipe.image.repository}:{_tag(recipe)}",
    )


def _base(recipe: Recipe, locked: LockedImage) -> str:
    if not isinstance(recipe.base, ImageBase):
        # The archive moves daily, and the lock with it: its packages and hash are not what a page is for.
        return f"Debian {recipe.base.debian}, bootstrapped from its signed archive"
    if isinstance(locked.base, LockedImageBase):
        return f"`{recipe.base.image}@{locked.base.digest}`"
    return f"`{recipe.base.image}`, not pinned yet"


def _tag(recipe: Recipe) -> str:
    names = {name: name.upper() for name in TAG_FIELDS}
    return recipe.image.tag.format(**{**names, "vllm": recipe.vllm.version})


def _rows(recipe: Recipe, locked: LockedImage) -> Iterator[Row]:
    sources = {source.name: source for source in locked.sources}
    pins = {pin.name: pin for pin in locked.packages}
    for name, version in recipe.base.provides.items():
        yield Row(name, version, "the base", "the base's digest")
    wanted = [(package.name, package.version) for package in recipe.packages]
    if "vllm" not in recipe.base.provides:
        wanted.insert(0, ("vllm", recipe.vllm.local_version))
    for name, version in wanted:
        if name in sources:
            yield Row(name, version, _origin(sources[name]), _short(sources[name].sha256))
        elif name in pins:
            yield Row(name, version, f"index `{pins[name].index}`", _short(pins[name].sha256))
        else:
            missing = next(item for item in locked.unresolved if item.name == name)
            yield Row(name, version, f"`{missing.source}`", f"not pinned yet: {missing.reason}")


def _origin(source: LockedSource) -> str:
    if isinstance(source.source, GitSource):
        return f"built from `{source.source.git}` at `{source.source.commit[:DIGITS]}`"
    return f"built from `{source.source.filename}`"


def _short(sha256: str) -> str:
    return f"`sha256:{sha256[:DIGITS]}`"
