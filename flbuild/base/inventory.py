"""What a base carries: Python distributions with their files, Debian packages, the C library."""

from __future__ import annotations

import csv
import gzip
import io
import json
import posixpath
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from email.parser import HeaderParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from packaging.utils import canonicalize_name

from flbuild.base.tree import Tree
from flbuild.lock.model import BaseDistribution, DebianPackage

_PLACES = ("site-packages", "dist-packages")


class Inventory:
    """Reads a tree once; everything it gives is sorted."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._folders = _by_folder(tree.files)
        self._totals = Counter(folder for path in tree.files for folder in _above(path))

    @property
    def packages(self) -> tuple[DebianPackage, ...]:
        """Installed Debian packages, from dpkg's status file or from distroless images' status.d."""
        found = set()
        for path, content in self._tree.contents.items():
            if path == "var/lib/dpkg/status" or path.startswith("var/lib/dpkg/status.d/"):
                found |= set(_debian_packages(content.decode("utf-8", errors="replace")))
        keys = sorted(found)
        return tuple(
            DebianPackage(name=name, version=version, architecture=architecture)
            for name, architecture, version in keys
        )

    @property
    def glibc(self) -> str | None:
        """The C library's version, for example 2.36, by its package; None where there is none to see."""
        for package in self.packages:
            if package.name == "libc6":
                return package.version.partition("-")[0]
        return None

    def distributions(self) -> tuple[BaseDistribution, ...]:
        """Python distributions, each with the absolute paths that go when it is removed."""
        found = [
            *self._dist_infos(),
            *self._egg_infos(),
            *self._egg_links(),
        ]
        return tuple(sorted(found, key=lambda item: (item.name, item.location)))

    def _dist_infos(self) -> Iterator[BaseDistribution]:
        for path in self._named("/METADATA", ".dist-info"):
            info = posixpath.dirname(path)
            name, version = _identity(self._tree.contents[path])
            source = _editable_source(self._tree.contents.get(f"{info}/direct_url.json"))
            files = set(self._recorded(info)) | set(self._tree.below(info))
            if source is not None:
                files |= set(self._editable_files(posixpath.dirname(info), name))
                files |= set(self._tree.below(source))
            yield self._distribution(name, version, info, files, editable=source is not None)

    def _egg_infos(self) -> Iterator[BaseDistribution]:
        """What Debian and old setuptools leave: a folder or a file, mostly without a list of files."""
        for path, content in sorted(self._tree.contents.items()):
            if not path.endswith((".egg-info/PKG-INFO", ".egg-info")):
                continue
            info = posixpath.dirname(path) if path.endswith("/PKG-INFO") else path
            folder = posixpath.dirname(info)
            if posixpath.basename(folder) not in _PLACES:
                continue
            name, version = _identity(content)
            files = {info} if info == path else set(self._tree.below(info))
            files |= self._listed(info) or self._top_level(folder, info, name)
            yield self._distribution(name, version, info, files)

    def _egg_links(self) -> Iterator[BaseDistribution]:
        """`setup.py develop`: a link in site-packages, and the metadata in the source tree it names."""
        for path in self._named(".egg-link", ""):
            source = self._tree.contents[path].decode(errors="replace").split("\n", 1)[0].strip().lstrip("/")
            found = [
                inside
                for inside in self._tree.below(source)
                if inside.endswith(".egg-info/PKG-INFO") and inside in self._tree.contents
            ]
            name, version = (
                _identity(self._tree.contents[min(found, key=len)])
                if found
                else (posixpath.basename(path).removesuffix(".egg-link"), "0")
            )
            files = {path, *self._editable_files(posixpath.dirname(path), name), *self._tree.below(source)}
            yield self._distribution(name, version, path, files, editable=True)

    def _named(self, suffix: str, folder_suffix: str) -> list[str]:
        """Kept files with that end, directly in a distribution folder of a place for packages."""
        return [
            path
            for path in sorted(self._tree.contents)
            if path.endswith(folder_suffix + suffix) and any(f"/{place}/" in path for place in _PLACES)
        ]

    def _recorded(self, info: str) -> Iterator[str]:
        """Installed files by RECORD, with the byte-code that an interpreter adds beside them."""
        record = self._tree.contents.get(f"{info}/RECORD", b"").decode("utf-8", errors="replace")
        root = posixpath.dirname(info)
        for row in csv.reader(io.StringIO(record)):
            if not row:
                continue
            path = posixpath.normpath(posixpath.join("/", root, row[0])).lstrip("/")
            yield path
            if path.endswith(".py"):
                folder, name = posixpath.split(path)
                start = f"{folder}/__pycache__/{name.removesuffix('.py')}."
                yield from (
                    made for made in self._in_folder(f"{folder}/__pycache__") if made.startswith(start)
                )

    def _in_folder(self, folder: str) -> Iterable[str]:
        return self._folders.get(folder, ())

    def _listed(self, info: str) -> set[str]:
        listed = self._tree.contents.get(f"{info}/installed-files.txt", b"").decode(errors="replace")
        return {posixpath.normpath(posixpath.join(info, line)) for line in listed.splitlines() if line}

    def _top_level(self, folder: str, info: str, name: str) -> set[str]:
        listed = self._tree.contents.get(f"{info}/top_level.txt", b"").decode(errors="replace").split()
        files: set[str] = set()
        for module in listed or [name.replace("-", "_")]:
            files |= set(self._tree.below(f"{folder}/{module}"))
            files |= {f"{folder}/{module}.py"} & self._tree.files
        return files

    def _editable_files(self, folder: str, name: str) -> Iterator[str]:
        """The .pth files and finders that make an import find a source tree."""
        spelled = name.replace("-", "_")
        for path in self._in_folder(folder):
            base = posixpath.basename(path).lower().replace("-", "_")
            if base.startswith(
                (f"__editable__.{spelled}", f"__editable___{spelled}", f"_{spelled}.pth")
            ) or path.endswith("easy-install.pth"):
                yield path

    def _distribution(
        self, name: str, version: str, location: str, files: Iterable[str], *, editable: bool = False
    ) -> BaseDistribution:
        present = {path for path in files if path in self._tree.files}
        return BaseDistribution(
            name=name,
            version=version,
            location=f"/{location}",
            editable=editable,
            files=tuple(f"/{path}" for path in self._collapse(present)),
        )

    def _collapse(self, files: set[str]) -> list[str]:
        """The fewest paths that stand for `files`: a folder in place of all files in it."""
        inside = Counter(folder for path in files for folder in _above(path))
        whole = {folder for folder, count in inside.items() if count == self._totals[folder]}
        result = set()
        for path in files:
            top = next((folder for folder in _above(path) if folder in whole), path)
            result.add(top)
        return sorted(result)


def read_tar(path: Path) -> Inventory:
    """The inventory of one layer file, plain or gzip."""
    tree = Tree()
    with path.open("rb") as stream:
        packed = stream.read(2) == b"\x1f\x8b"
        stream.seek(0)
        if packed:
            with gzip.open(stream) as plain:
                tree.apply(plain)  # type: ignore[arg-type]
        else:
            tree.apply(stream)
    return Inventory(tree)


def _above(path: str) -> Iterator[str]:
    """Every folder above a path, the outermost first."""
    parts = path.split("/")
    for depth in range(1, len(parts)):
        yield "/".join(parts[:depth])


def _by_folder(files: Iterable[str]) -> dict[str, list[str]]:
    """Files by the folder they are directly in."""
    folders: dict[str, list[str]] = defaultdict(list)
    for path in files:
        folders[posixpath.dirname(path)].append(path)
    return folders


def _identity(metadata: bytes) -> tuple[str, str]:
    headers = HeaderParser().parsestr(metadata.decode("utf-8", errors="replace"), headersonly=True)
    return str(canonicalize_name(headers.get("Name", "unknown"))), headers.get("Version", "0")


def _editable_source(direct_url: bytes | None) -> str | None:
    """The source tree of an editable install (PEP 610), without its leading slash."""
    if direct_url is None:
        return None
    try:
        content = json.loads(direct_url)
    except ValueError:
        return None
    if not content.get("dir_info", {}).get("editable"):
        return None
    return unquote(urlsplit(content.get("url", "")).path).strip("/")


def _debian_packages(status: str) -> Iterator[tuple[str, str, str]]:
    for paragraph in status.split("\n\n"):
        headers = HeaderParser().parsestr(paragraph, headersonly=True)
        installed = headers.get("Status", "install ok installed").endswith(" installed")
        if headers.get("Package") and headers.get("Version") and installed:
            yield headers["Package"], headers.get("Architecture", "all"), headers["Version"]
