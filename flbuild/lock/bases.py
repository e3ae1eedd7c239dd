"""Bases of both kinds behind one seam."""

from __future__ import annotations

from flbuild.base.debian import DebianBases
from flbuild.base.image import ImageBases
from flbuild.errors import HostError
from flbuild.lock.model import LockedBase, LockedDebianBase
from flbuild.progress import Progress
from flbuild.recipe.model import DebianBase, Recipe
from flbuild.settings import Settings


class Bases:
    """Looks at Debian's archive or at a registry, whichever a recipe's base comes from."""

    def __init__(self, settings: Settings, progress: Progress, *, offline: bool = False) -> None:
        self._debian = DebianBases(settings, progress)
        self._image = ImageBases(settings, progress)
        self._offline = offline

    def lock(self, recipe: Recipe) -> LockedBase:
        """The base of a recipe as it is now, with its whole inventory.

        Raises:
            HostError: offline, or what the base comes from does not answer.
        """
        if self._offline:
            raise HostError(
                f"{recipe.name}: its base has to be looked at, and --offline forbids it",
                remedy="run once without --offline",
            )
        if isinstance(recipe.base, DebianBase):
            return self._debian.lock(recipe.base, recipe.platform)
        return self._image.lock(recipe.base, recipe.platform)

    def relist(self, base: LockedBase, platform: str) -> LockedBase:
        """The same locked base with the file lists of its whole inventory again."""
        if isinstance(base, LockedDebianBase):
            return self._debian.relist(base, platform)
        return self._image.relist(base, platform)
