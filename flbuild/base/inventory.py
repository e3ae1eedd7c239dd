"""What a base carries: Python distributions with their files, Debian packages, the C library."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from email.parser import HeaderParser
from functools import cached_property
from pathlib import Path

from flbuild.base.distributions import Found, find_distributions
from flbuild.base.layer import LIBC, read_layer
from flbuild.base.tree import Tree
from flbuild.base.unpack import open_plain
from flbuild.lock.model import BaseDistribution, DebianPackage

_IN_PLACE = re.compile(r"(?:^|/)(?:site|dist)-packages/")


class Inventory:
    """Reads a tree once; everything it gives is sorted."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._contents = tree.contents

    @cached_property
    def packages(self) -> tuple[DebianPackage, ...]:
        """Installed Debian packages, from dpkg's status file or from distroless images' status.d."""
        found = set()
        for path, content in self._contents.items():
            if path == "var/lib/dpkg/status" or path.startswith("var/lib/dpkg/status.d/"):
                found |= set(_debian_packages(content.decode("utf-8", errors="replace")))
        return tuple(
            DebianPackage(name=name, version=version, architecture=architecture)
            for name, architecture, version in sorted(found)
        )

    @property
    def glibc(self) -> str | None:
        """The C library's version, for example 2.36; None where there is none to see.

        From its Debian package, else from what the library says of itself.
        """
        for package in self.packages:
            if package.name == "libc6":
                return package.version.partition("-")[0]
        said = {content.decode() for path, content in self._contents.items() if LIBC.search(path)}
        return max(said, key=lambda version: [int(part) for part in version.split(".")], default=None)

    def distributions(self) -> tuple[BaseDistribution, ...]:
        """Python distributions, each with the absolute paths that go when it is removed."""
        files = self._tree.files
        totals = _counts(files)
        found = [self._distribution(item, files, totals) for item in find_distributions(self._tree)]
        return tuple(sorted(found, key=lambda item: (item.name, item.location)))

    def _distribution(self, found: Found, files: frozenset[str], totals: Counter[str]) -> BaseDistribution:
        paths = _collapse(found.files & files, found.trees, totals)
        return BaseDistribution(
            name=found.name,
            version=found.version,
            location=f"/{found.location}",
            editable=found.editable,
            files=tuple(f"/{path}" for path in paths),
        )


def read_tar(path: Path) -> Inventory:
    """The inventory of one layer file, compressed or not."""
    tree = Tree()
    with path.open("rb", buffering=0) as stream, open_plain(stream) as plain:
        tree.apply(read_layer(plain))
    return Inventory(tree)


def _collapse(files: frozenset[str], trees: Iterable[str], totals: Counter[str]) -> list[str]:
    """The fewest paths that stand for `files`: a folder in place of all files in it.

    Only for folders of packages and source trees: /usr/local/bin stays, even if all in it goes.
    """
    inside = _counts(files)
    whole = {
        folder
        for folder, count in inside.items()
        if count == totals[folder] and (_IN_PLACE.search(folder) or _is_in(folder, trees))
    }
    tops: dict[str, str | None] = {}
    result = set()
    for path in files:
        folder = path.rpartition("/")[0]
        if folder not in tops:
            tops[folder] = next((above for above in _upwards(folder) if above in whole), None)
        result.add(tops[folder] or path)
    return sorted(result)


def _counts(files: Iterable[str]) -> Counter[str]:
    """How many files are in each folder, at any depth."""
    direct = Counter(path.rpartition("/")[0] for path in files)
    counts: Counter[str] = Counter()
    for folder, count in direct.items():
        for above in _upwards(folder):
            counts[above] += count
    return counts


def _is_in(folder: str, trees: Iterable[str]) -> bool:
    return any(folder == tree or folder.startswith(f"{tree}/") for tree in trees)


def _upwards(folder: str) -> Iterator[str]:
    """A folder and every one above it, the outermost first."""
    end = folder.find("/")
    while end != -1:
        yield folder[:end]
        end = folder.find("/", end + 1)
    yield folder


def _debian_packages(status: str) -> Iterator[tuple[str, str, str]]:
    for paragraph in status.split("\n\n"):
        headers = HeaderParser().parsestr(paragraph, headersonly=True)
        installed = headers.get("Status", "install ok installed").endswith(" installed")
        if headers.get("Package") and headers.get("Version") and installed:
            yield headers["Package"], headers.get("Architecture", "all"), headers["Version"]
