"""Distributions that a recipe takes from one named index, and from nowhere else."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from packaging.version import InvalidVersion, Version

from flbuild.errors import HostError, RecipeError, RemoteGoneError
from flbuild.index.client import IndexClient, IndexFile
from flbuild.lock.missing import Missing, missing
from flbuild.lock.model import LockedFile
from flbuild.lock.pin import Pinner
from flbuild.lock.resolve import INDEX, Candidate
from flbuild.lock.stub import Fixed
from flbuild.progress import Progress
from flbuild.recipe.model import Package
from flbuild.settings import index_variable


@dataclass(frozen=True)
class Named:
    """A pin from a named index and what it requires, or why there is none."""

    file: LockedFile | None = None
    fixed: Fixed | None = None
    missing: Missing | None = None


class NamedPins:
    """Looks up exact versions on named indexes.

    A find-links folder stands in for an index that cannot be asked or lacks the file: the pin still names the
    index, because any place may serve a file whose hash is the locked one.
    """

    def __init__(self, client: IndexClient, pinner: Pinner, progress: Progress) -> None:
        self._client = client
        self._pinner = pinner
        self._progress = progress

    def pin_all(self, packages: Iterable[Package]) -> tuple[Named, ...]:
        """Pins of every package whose index is not the public one; what cannot be had is marked.

        Raises:
            RecipeError: a version is there, but no wheel of it fits the image.
        """
        return tuple(self._pin(package) for package in packages if is_named(package))

    def _pin(self, package: Package) -> Named:
        index = package.index or INDEX
        try:
            file = self._pinner.kept(package.name, package.version, index) or self._look_up(package, index)
        except (HostError, RemoteGoneError) as error:
            return Named(missing=missing(package.name, package.version, index, error))
        return Named(file, Fixed(file.name, file.version, self._pinner.metadata(file)))

    def _look_up(self, package: Package, index: str) -> LockedFile:
        try:
            offers = _of_version(self._client.files(index, package.name), package.version)
            if not offers:
                raise self._absent(package, index)
        except (HostError, RemoteGoneError) as error:
            offers = _of_version(self._client.find_links(package.name), package.version)
            if not offers:
                raise
            self._progress.info(f"{package.name} {package.version}: from find-links, because {error.what}")
        wheels = [offer for offer in offers if offer.kind == "wheel"]
        if not wheels:
            raise RecipeError(
                f"index '{index}' has {package.name} {package.version} as source only",
                remedy="give `git` and `commit` in the recipe, and flbuild builds the wheel",
            )
        if all(wheel.yanked for wheel in wheels):
            self._progress.warn(
                f"{package.name} {package.version} was withdrawn from index '{index}' (yanked)"
            )
        candidates = [Candidate(item.filename, item.location, item.sha256, item.size) for item in wheels]
        return self._pinner.pin(package.name, package.version, index, candidates)

    def _absent(self, package: Package, index: str) -> RemoteGoneError:
        known = {file.version for file in self._client.files(index, package.name)}
        newest = ", ".join(sorted(known, key=_order)[-5:])
        return RemoteGoneError(
            f"index '{index}' has no {package.name} {package.version}",
            cause=f"its newest versions are {newest}",
            remedy=f"correct the recipe, or set {index_variable(index)} to a place that has it",
        )


def is_named(package: Package) -> bool:
    """Whether a package comes from an index other than the public one."""
    return package.git is None and package.index not in (None, INDEX)


def _of_version(files: Iterable[IndexFile], version: str) -> tuple[IndexFile, ...]:
    wanted = Version(version)
    return tuple(file for file in files if _parsed(file.version) == wanted)


def _parsed(version: str) -> Version | None:
    try:
        return Version(version)
    except InvalidVersion:
        return None


def _order(version: str) -> tuple[bool, Version]:
    parsed = _parsed(version)
    return parsed is not None, parsed or Version("0")
