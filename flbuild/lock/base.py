"""The base of an entry: when it is locked anew, and which changes need consent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from packaging.version import InvalidVersion, Version

from flbuild.errors import HostError, PolicyError, RecipeError, RemoteGoneError
from flbuild.lock.missing import Missing, missing
from flbuild.lock.model import (
    BaseDistribution,
    LockedBase,
    LockedDebianBase,
    LockedImageBase,
)
from flbuild.recipe.model import DebianBase, ImageBase, Recipe

ASSUMED_GLIBC = "2.35"
"""Of Ubuntu 22.04, on which the bases of both vendors stand; counts only until the base can be asked."""


class BaseLocker(Protocol):
    """Looks at a base as it is now."""

    def lock(self, recipe: Recipe) -> LockedBase:
        """The base of a recipe with its whole inventory; errors are those of its registry or archive."""

    def relist(self, base: LockedBase, platform: str) -> LockedBase:
        """The same locked base, by digest, with the file lists of its whole inventory again."""


@dataclass(frozen=True)
class BaseResult:
    """A locked base, or why there is none."""

    base: LockedBase | None
    missing: Missing | None = None


def lock_base(
    recipe: Recipe,
    old: LockedBase | None,
    locker: BaseLocker,
    *,
    refresh: bool = False,
    allow_kind_change: bool = False,
) -> BaseResult:
    """The base of a recipe: as locked, unless the recipe asks for another or `refresh` is set.

    A base that cannot be had is marked as missing, if the lock has none that would do.

    Raises:
        PolicyError: what the tag names changed its kind, and `allow_kind_change` is false.
        RecipeError: the base does not carry what the recipe says it provides.
    """
    if old is not None and not refresh and asks_for(recipe, old):
        return BaseResult(old)
    try:
        new = locker.lock(recipe)
    except (HostError, RemoteGoneError) as error:
        if old is not None and asks_for(recipe, old):
            raise
        return BaseResult(None, missing(*base_name(recipe), error))
    if not allow_kind_change:
        _refuse_kind_change(recipe, old, new)
    _require_provided(recipe, new)
    return BaseResult(new)


def asks_for(recipe: Recipe, base: LockedBase) -> bool:
    """Whether a locked base is the one that the recipe names."""
    if isinstance(recipe.base, ImageBase):
        return isinstance(base, LockedImageBase) and base.reference == recipe.base.image
    return (
        isinstance(base, LockedDebianBase)
        and base.suite == recipe.base.debian
        and set(base.requested) == set(recipe.base.packages)
    )


def base_name(recipe: Recipe) -> tuple[str, str, str]:
    """Name, version and source of a base, as an unresolved entry names them."""
    if isinstance(recipe.base, DebianBase):
        return "debian", recipe.base.debian, "debian"
    repository, _, tag = recipe.base.image.rpartition(":")
    return repository, tag, repository.partition("/")[0]


def prune(base: LockedBase, leaving: Iterable[str]) -> LockedBase:
    """The base with file lists for those distributions only that the image takes out or replaces."""
    names = set(leaving)
    inventory = tuple(
        item if item.name in names else item.model_copy(update={"files": ()}) for item in base.inventory
    )
    return base.model_copy(update={"inventory": inventory})


def lacks_files(base: LockedBase, leaving: Iterable[str]) -> tuple[BaseDistribution, ...]:
    """Distributions to take out whose files the lock does not list."""
    names = set(leaving)
    return tuple(item for item in base.inventory if item.name in names and not item.files)


def _refuse_kind_change(recipe: Recipe, old: LockedBase | None, new: LockedBase) -> None:
    if not isinstance(old, LockedImageBase) or not isinstance(new, LockedImageBase):
        return
    if _repository(old) == _repository(new) and old.digest_kind != new.digest_kind:
        raise PolicyError(
            f"{new.reference} was an {old.digest_kind} when it was locked, it is an {new.digest_kind} now",
            cause="it was published in another way; other platforms, or this one, may be missing from it",
            remedy=f"look at it, then flbuild lock {recipe.name} --refresh-base --allow-kind-change",
        )


def _require_provided(recipe: Recipe, base: LockedBase) -> None:
    carried = {item.name: item.version for item in base.inventory}
    for name, version in recipe.base.provides.items():
        found = carried.get(name)
        if found is None or not _same_version(found, version):
            raise RecipeError(
                f"recipes/{recipe.name}.yaml: base.provides says {name} {version}, "
                f"the base carries {found or 'none'}",
                remedy="correct base.provides, or choose another base",
            )


def _same_version(carried: str, wanted: str) -> bool:
    try:
        return Version(carried) == Version(wanted)
    except InvalidVersion:
        return False


def _repository(base: LockedImageBase) -> str:
    return base.reference.rpartition(":")[0]
