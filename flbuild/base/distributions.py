"""Python distributions in a tree, whichever way they were installed, with the files each consists of."""

from __future__ import annotations

import csv
import io
import posixpath
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from email.parser import HeaderParser

from packaging.utils import canonicalize_name

from flbuild.base.editable import finder_targets, path_lines, recorded_source
from flbuild.base.tree import Tree

PLACES = ("site-packages", "dist-packages")


@dataclass(frozen=True)
class Found:
    """A distribution; paths have no leading slash.

    Attributes:
        sources: where the code of an editable install is.
        trees: folders of those that go with it as a whole.
    """

    name: str
    version: str
    location: str
    files: frozenset[str]
    editable: bool = False
    sources: tuple[str, ...] = ()
    trees: tuple[str, ...] = ()


def find_distributions(tree: Tree) -> list[Found]:
    """All of them, in no order."""
    return _Finder(tree).find()


class _Finder:
    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._contents = tree.contents
        self._reals: dict[str, str] = {}
        self._path_files: dict[str, list[str]] = defaultdict(list)
        self._caches: dict[str, list[str]] = defaultdict(list)
        for path in tree.files:
            folder, _, name = path.rpartition("/")
            if folder.endswith("/__pycache__"):
                # The name of a module has no dot, the tags of its byte-code have some.
                self._caches[f"{folder.removesuffix('__pycache__')}{name.partition('.')[0]}.py"].append(path)
            elif name.endswith(".pth"):
                self._path_files[folder].append(path)

    def find(self) -> list[Found]:
        installed = [*self._dist_infos(), *self._egg_infos(), *self._eggs()]
        linked = list(self._egg_links())
        seen = {source for found in (*installed, *linked) for source in found.sources}
        return [*installed, *linked, *self._on_path(seen)]

    def _dist_infos(self) -> Iterator[Found]:
        """What pip, uv and their like install (PEP 376), editable or not."""
        for path in self._kept("/METADATA"):
            info = posixpath.dirname(path)
            place = posixpath.dirname(info)
            if not info.endswith(".dist-info") or posixpath.basename(place) not in PLACES:
                # A copy that another distribution carries inside is not installed.
                continue
            name, version = _identity(self._contents[path])
            files = set(self._recorded(info)) | set(self._tree.below(info))
            sources = self._sources(info, {path for path in files if posixpath.dirname(path) == place})
            yield self._with_sources(Found(name, version, info, frozenset(files)), info, sources)

    def _egg_infos(self) -> Iterator[Found]:
        """What Debian and old setuptools leave: a folder or a file, mostly without a list of files."""
        for path in sorted(self._contents):
            info = posixpath.dirname(path) if path.endswith(".egg-info/PKG-INFO") else path
            place = posixpath.dirname(info)
            if not info.endswith(".egg-info") or posixpath.basename(place) not in PLACES:
                continue
            name, version = _identity(self._contents[path])
            own = {info} if info == path else set(self._tree.below(info))
            modules = self._listed(info) or self._modules(place, info, name)
            yield Found(name, version, info, frozenset(own | modules))

    def _eggs(self) -> Iterator[Found]:
        """What easy_install left: a folder of its own for each."""
        for path in self._kept(".egg/EGG-INFO/PKG-INFO"):
            egg = posixpath.dirname(posixpath.dirname(path))
            if posixpath.basename(posixpath.dirname(egg)) in PLACES:
                name, version = _identity(self._contents[path])
                yield Found(name, version, egg, frozenset(self._tree.below(egg)))

    def _egg_links(self) -> Iterator[Found]:
        """`setup.py develop`: a link in site-packages, and the metadata in the source tree it names."""
        for path in self._kept(".egg-link"):
            place = posixpath.dirname(path)
            if posixpath.basename(place) not in PLACES:
                continue
            for source in path_lines(self._contents[path])[:1]:
                name = str(canonicalize_name(posixpath.basename(path).removesuffix(".egg-link")))
                described = self._described(source)
                version = next((found.version for found in described if found.name == name), "0")
                links = {path} | self._only_for(place, source)
                yield self._with_sources(Found(name, version, path, frozenset(links)), path, [source])

    def _on_path(self, seen: set[str]) -> Iterator[Found]:
        """Source trees that a hand-written .pth file puts on the path, with their metadata in them."""
        for path in self._kept(".pth"):
            if posixpath.basename(posixpath.dirname(path)) not in PLACES:
                continue
            for line in path_lines(self._contents[path]):
                source = self._tree.real(line)
                if source is None or source in seen:
                    continue
                for described in self._described(source):
                    links = self._only_for(posixpath.dirname(path), line)
                    found = replace(described, files=frozenset(links))
                    yield self._with_sources(found, described.location, [source])

    def _described(self, source: str) -> list[Found]:
        """What the metadata directly in a source tree, or in its src folder, says of itself."""
        real = self._tree.real(source)
        found = []
        for path in sorted(self._contents):
            info, name = posixpath.split(path)
            if (info.endswith(".egg-info") and name == "PKG-INFO") or (
                info.endswith(".dist-info") and name == "METADATA"
            ):
                folder = posixpath.dirname(info)
                if real is not None and folder in (real, f"{real}/src"):
                    found.append(Found(*_identity(self._contents[path]), info, frozenset()))
        return found

    def _sources(self, info: str, links: Iterable[str]) -> list[str]:
        """Where the code of an editable install is; empty for one that is not editable.

        Args:
            links: its files that are directly in site-packages, which may lead somewhere else.
        """
        recorded = recorded_source(self._contents.get(f"{info}/direct_url.json"))
        if recorded is not None:
            return [recorded]
        sources = []
        for path in sorted(links):
            content = self._contents.get(path, b"")
            if path.endswith(".pth"):
                sources += path_lines(content)
            elif posixpath.basename(path).startswith("__editable__"):
                sources += finder_targets(content)
        return sources

    def _with_sources(self, found: Found, info: str, sources: Iterable[str]) -> Found:
        """A distribution whose code is elsewhere, with that code.

        A source tree goes as a whole, unless it holds an interpreter's packages too; then its modules go.
        """
        real = [self._real(source) for source in sources]
        modules = self._module_names(info, found.name)
        trees: set[str] = set()
        for source in real:
            inside = [f"/{path}" for path in self._tree.below(source)]
            if any(f"/{place}/" in path for path in inside for place in PLACES):
                trees |= {f"{source}/{part}{module}" for module in modules for part in ("", "src/")}
            elif source and inside:
                trees.add(source)
        code = {path for tree in trees for path in self._tree.below(tree)}
        return replace(
            found,
            files=found.files | code | set(real),
            editable=bool(real),
            sources=tuple(real),
            trees=tuple(sorted(trees)),
        )

    def _recorded(self, info: str) -> Iterator[str]:
        """Installed files by RECORD, with the byte-code that an interpreter adds beside them."""
        record = self._contents.get(f"{info}/RECORD", b"").decode("utf-8", errors="replace")
        root = self._tree.real(posixpath.dirname(info)) or ""
        for row in csv.reader(io.StringIO(record)):
            if not row:
                continue
            path = self._real(posixpath.join("/", root, row[0]))
            yield path
            if path.endswith(".py"):
                yield from self._caches.get(path, ())

    def _listed(self, info: str) -> set[str]:
        listed = self._contents.get(f"{info}/installed-files.txt", b"").decode(errors="replace")
        return {self._real(posixpath.join(info, line)) for line in listed.splitlines() if line}

    def _modules(self, place: str, info: str, name: str) -> set[str]:
        files: set[str] = set()
        for module in self._module_names(info, name):
            files |= set(self._tree.below(f"{place}/{module}"))
            files |= {f"{place}/{module}.py", *self._caches.get(f"{place}/{module}.py", ())}
        return files

    def _module_names(self, info: str, name: str) -> list[str]:
        listed = self._contents.get(f"{info}/top_level.txt", b"").decode(errors="replace").split()
        return listed or [name.replace("-", "_")]

    def _only_for(self, place: str, source: str) -> set[str]:
        """.pth files in a place that name nothing but this source tree."""
        return {
            path
            for path in self._path_files.get(place, ())
            if set(path_lines(self._contents.get(path, b""))) == {source}
        }

    def _kept(self, suffix: str) -> list[str]:
        return [path for path in sorted(self._contents) if path.endswith(suffix)]

    def _real(self, path: str) -> str:
        """A file's path through no symbolic link in its folders."""
        folder, name = posixpath.split(posixpath.normpath(path).lstrip("/"))
        if folder not in self._reals:
            real = self._tree.real(folder)
            self._reals[folder] = folder if real is None else real
        return posixpath.join(self._reals[folder], name)


def _identity(metadata: bytes) -> tuple[str, str]:
    headers = HeaderParser().parsestr(metadata.decode("utf-8", errors="replace"), headersonly=True)
    return str(canonicalize_name(headers.get("Name", "unknown"))), headers.get("Version", "0")
