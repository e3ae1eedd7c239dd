"""What every check gets: the image, its files, and what the lock says it must be."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Protocol

from packaging.metadata import parse_email
from packaging.utils import canonicalize_name

from flbuild.lock.model import LockedFile, LockedImage, Output
from flbuild.recipe.model import Recipe
from flbuild.verify.run.observed import Observed
from flbuild.verify.subject import Subject
from flbuild.verify.view import FileView

_INSTALLED = re.compile(r"/(?:site|dist)-packages/[^/]+\.dist-info/METADATA$")
"""Directly in a folder for packages: what lies deeper is a copy that a distribution carries for itself."""


class WheelFinder(Protocol):
    """Gives the local file of a locked wheel, or None if it is not on this machine."""

    def __call__(self, sha256: str, filename: str) -> Path | None: ...


@dataclass(frozen=True)
class Installed:
    """A Python distribution in the image; `info` is its .dist-info without a leading slash.

    One that is only known from the locked inventory of the base has no metadata here.
    """

    name: str
    version: str
    info: str
    requires: tuple[str, ...] = ()
    from_base: bool = False


@dataclass(frozen=True)
class Expected:
    """A distribution that the lock puts into the image."""

    name: str
    version: str
    filename: str
    sha256: str


@dataclass(frozen=True)
class Verification:
    """One image and what it is compared with.

    Args:
        output: None if the lock records no such image.
        observed: what a container of it showed; None if none was started, or it did not start.
        not_started: what a container said that did not start.
    """

    subject: Subject
    view: FileView
    recipe: Recipe
    locked: LockedImage
    target: str
    output: Output | None
    find_wheel: WheelFinder
    today: date
    observed: Observed | None = None
    not_started: str | None = None

    @cached_property
    def installed(self) -> tuple[Installed, ...]:
        """Every Python distribution, sorted by name."""
        found = installed_in(self.view)
        found += self._base_only({item.info for item in found})
        return tuple(sorted(found, key=lambda item: (item.name, item.info)))

    @cached_property
    def expected(self) -> tuple[Expected, ...]:
        """What the lock puts above the base, sorted by name; the plugin only if an output is recorded."""
        files: list[LockedFile] = [*self.locked.packages, *self.locked.targets.get(self.target, ())]
        items = [Expected(file.name, file.version, file.filename, file.sha256) for file in files]
        items += [
            Expected(source.name, source.version, source.filename, source.sha256)
            for source in self.locked.sources
        ]
        if self.output is not None:
            plugin = self.output.plugin
            items.append(Expected(self.recipe.plugin.name, plugin.version, plugin.filename, plugin.sha256))
        return tuple(sorted(items, key=lambda item: item.name))

    @property
    def site_packages(self) -> str:
        """Where wheels are installed, without the leading slash."""
        return self.recipe.python.site_packages.strip("/")

    def _base_only(self, known: set[str]) -> list[Installed]:
        """Distributions that only the base's inventory tells of: in layers that were not read, or without
        metadata of the current form."""
        base = self.locked.base
        if base is None:
            return []
        locations = {item.location.strip("/"): item for item in base.inventory}
        return [
            Installed(item.name, item.version, location, from_base=True)
            for location, item in locations.items()
            if location not in known and self._is_there(location)
        ]

    def _is_there(self, location: str) -> bool:
        """Whether the base's file or folder is still there; the base's layers are the first ones."""
        return self.view.exists(location) if 0 in self.view.read else not self._is_hidden(location)

    def _is_hidden(self, path: str) -> bool:
        parts = path.split("/")
        return any("/".join(parts[:depth]) in self.view.hidden for depth in range(1, len(parts) + 1))


def installed_in(view: FileView) -> list[Installed]:
    """The distributions whose metadata are among the files of a view, by path."""
    return [_read(view, path) for path in sorted(view.contents) if _INSTALLED.search(path)]


def _read(view: FileView, path: str) -> Installed:
    raw, _ = parse_email(view.contents[path])
    return Installed(
        str(canonicalize_name(raw.get("name", posixpath.basename(posixpath.dirname(path))))),
        raw.get("version", ""),
        posixpath.dirname(path),
        tuple(raw.get("requires_dist", ())),
    )
