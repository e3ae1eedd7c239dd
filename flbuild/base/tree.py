"""The files of a base, layer upon layer, as a container would see them."""

from __future__ import annotations

import posixpath
from collections import deque
from collections.abc import Iterator

from flbuild.base.layer import FILE, FOLDER, HARDLINK, SYMLINK, Entry, LayerFacts

_Folder = dict[str, "_Node"]
_Node = dict[str, "_Node"] | str | None
"""A folder by names, the target of a symbolic link, or None for a file."""

_MOST_LINKS = 40
"""Symbolic links followed on the way to one file, as Linux counts them."""


class Tree:
    """What a container would see. Paths have no leading slash and lead through no symbolic link."""

    def __init__(self) -> None:
        self._root: _Folder = {}
        self._contents: dict[str, bytes] = {}
        self._files: frozenset[str] | None = None

    def apply(self, layer: LayerFacts) -> None:
        """Put one layer on top (OCI image specification, "Applying Changesets")."""
        self._files = None
        for path in layer.whiteouts:
            place = self._place(path)
            if place is not None:
                place[1].pop(posixpath.basename(path), None)
        for path in layer.opaque:
            found = self._walk(path, make=False)
            if found is not None:
                found[1].clear()
        for entry in layer.entries:
            self._add(entry, layer.contents.get(entry.path))

    @property
    def files(self) -> frozenset[str]:
        """Every file and symbolic link."""
        if self._files is None:
            self._files = frozenset(_below(self._root, ""))
        return self._files

    @property
    def contents(self) -> dict[str, bytes]:
        """What is in those files that describe installations."""
        return {path: content for path, content in self._contents.items() if path in self.files}

    def below(self, folder: str) -> Iterator[str]:
        """Every file and symbolic link inside `folder`; none if it is no folder."""
        found = self._walk(folder, make=False)
        if found is not None:
            yield from _below(found[1], found[0])

    def real(self, folder: str) -> str | None:
        """The path of a folder without symbolic links in it, or None if it is none."""
        found = self._walk(folder, make=False)
        return found[0].rstrip("/") if found is not None else None

    def _add(self, entry: Entry, content: bytes | None) -> None:
        place = self._place(entry.path, make=True)
        if place is None:
            return
        folder, names = place
        name = posixpath.basename(entry.path)
        path = folder + name
        if entry.kind == FOLDER:
            if not isinstance(names.get(name), dict):
                names[name] = {}
            return
        if entry.kind == HARDLINK:
            target = self._place(entry.target)
            source = None if target is None else target[0] + posixpath.basename(entry.target)
            content = self._contents.get(source) if source is not None else None
        names[name] = entry.target if entry.kind == SYMLINK else None
        self._contents.pop(path, None)
        if content is not None and entry.kind in (FILE, HARDLINK):
            self._contents[path] = content

    def _place(self, path: str, *, make: bool = False) -> tuple[str, _Folder] | None:
        return self._walk(posixpath.dirname(path), make=make)

    def _walk(self, path: str, *, make: bool) -> tuple[str, _Folder] | None:
        """The real path of a folder, with a slash at its end unless it is the root, and its names."""
        way: list[tuple[str, _Folder]] = [("", self._root)]
        left = deque(path.split("/"))
        links = 0
        while left:
            name = left.popleft()
            if name in ("", "."):
                continue
            if name == "..":
                way = way[:-1] or way
                continue
            folder, names = way[-1]
            node = names.get(name)
            if isinstance(node, str):
                links += 1
                if links > _MOST_LINKS:
                    return None
                left.extendleft(reversed(node.split("/")))
                way = way[:1] if node.startswith("/") else way
                continue
            if not isinstance(node, dict):
                if not make:
                    return None
                node = names[name] = {}
            way.append((f"{folder}{name}/", node))
        return way[-1]


def _below(names: _Folder, prefix: str) -> Iterator[str]:
    for name, node in names.items():
        if isinstance(node, dict):
            yield from _below(node, f"{prefix}{name}/")
        else:
            yield prefix + name
