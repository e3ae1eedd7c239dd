"""Getting the pinned files of a context: from the store and indexes, from git, from where a base is made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from flbuild.base.debian import DebianBases
from flbuild.errors import BaseMovedError, BuildError, FlbuildError, HostError, RemoteMovedError
from flbuild.files import sha256_file
from flbuild.index.git import GitStore, save_archive
from flbuild.index.store import FileRef, FileStore
from flbuild.lock.model import GitSource, LockedDebianBase
from flbuild.render.context import Built, Wanted


@dataclass(frozen=True)
class Supplied:
    """The local files that were had, by their places in the context, and why the others were not."""

    paths: dict[str, Path] = field(default_factory=dict)
    missing: dict[str, FlbuildError] = field(default_factory=dict)


class Supply:
    """Where pinned files come from.

    Args:
        platform: of the image, which is that of a Debian base.
    """

    def __init__(self, store: FileStore, git: GitStore, bases: DebianBases, platform: str) -> None:
        self._store = store
        self._git = git
        self._bases = bases
        self._platform = platform

    def get(self, wanted: Sequence[Wanted], archives: Path) -> Supplied:
        """Every file that can be had on this machine now.

        Args:
            archives: a folder that archives of git commits are written to.

        Raises:
            RemoteMovedError: something was found that is not what is locked.
            RemoteGoneError: an index or a repository answers, and no longer has a file.
        """
        supplied = Supplied()
        self._from_indexes(
            [(item.path, item.pin) for item in wanted if isinstance(item.pin, FileRef)], supplied
        )
        for item in wanted:
            if isinstance(item.pin, FileRef):
                continue
            try:
                supplied.paths[item.path] = self._one(item.pin, archives)
            except (BaseMovedError, BuildError, HostError) as error:
                supplied.missing[item.path] = error
        return supplied

    def _from_indexes(self, wanted: Iterable[tuple[str, FileRef]], supplied: Supplied) -> None:
        """Files of one index at a time: one that does not answer is asked once, not for each of its files."""
        for _, group in groupby(sorted(wanted, key=lambda item: item[1].index), lambda item: item[1].index):
            items = list(group)
            failure: HostError | None = None
            found: Mapping[str, Path] = {}
            try:
                found = self._store.fetch_all(file for _, file in items)
            except HostError as error:
                failure = error
            for place, file in items:
                path = found.get(file.sha256) or self._store.find(file.sha256, file.filename)
                if path is not None:
                    supplied.paths[place] = path
                elif failure is not None:
                    supplied.missing[place] = failure

    def _one(self, pin: Built | GitSource | LockedDebianBase, archives: Path) -> Path:
        if isinstance(pin, LockedDebianBase):
            return self._bases.layer(pin, self._platform)
        if isinstance(pin, GitSource):
            return self._archive(pin, archives)
        found = self._store.find(pin.sha256, pin.filename)
        if found is None:
            raise HostError(f"{pin.filename} is not in the cache", remedy="flbuild wheel plugin")
        return found

    def _archive(self, pin: GitSource, archives: Path) -> Path:
        path = archives / f"{pin.commit}.tar"
        save_archive(self._git.commit(pin.git, pin.commit), pin.commit, path)
        if sha256_file(path) != pin.archive_sha256:
            raise RemoteMovedError(
                f"the archive of {pin.git} at {pin.commit[:12]} is not the locked one",
                cause="the lock was edited, or this git writes archives in another format",
            )
        return path
