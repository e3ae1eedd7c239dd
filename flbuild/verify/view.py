"""The files of an image as a container sees them: layer upon layer, whiteouts applied, links followed."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass, field

_MOST_LINKS = 40
"""Symbolic links followed on the way to one file, as Linux counts them."""


@dataclass(frozen=True)
class File:
    """One file; `digest` is the SHA-256 of its bytes, `head` their start if it is executable.

    `link` is the target of a symbolic link, and `layer` the index of the layer that brought it.
    """

    path: str
    size: int
    mode: int
    layer: int
    digest: bytes = b""
    link: str | None = None
    head: bytes = b""


@dataclass
class FileView:
    """Merged layers. Paths have no leading slash and lead through no symbolic link.

    Attributes:
        files: every file and symbolic link by its path.
        contents: the bytes of those files that describe installations.
        hidden: what a layer hides of the layers below, read or not.
        read: the indices of the layers that were read, and `read_bytes` their compressed size.
        problems: what is wrong with a layer as a whole.
    """

    files: dict[str, File] = field(default_factory=dict)
    contents: dict[str, bytes] = field(default_factory=dict)
    hidden: set[str] = field(default_factory=set)
    read: list[int] = field(default_factory=list)
    read_bytes: int = 0
    problems: list[str] = field(default_factory=list)
    _names: dict[str, set[str]] = field(default_factory=dict)

    def below(self, folder: str) -> Iterator[File]:
        """Every file inside `folder`."""
        for path in list(self._paths_below(self.real(folder.strip("/")))):
            yield self.files[path]

    def exists(self, path: str) -> bool:
        """Whether there is a file, a link, or a folder with something in it."""
        real = self.real(path.strip("/"))
        return real is not None and (real in self.files or next(self._paths_below(real), None) is not None)

    def get(self, path: str) -> File | None:
        """The file at a path, symbolic links followed."""
        real = self.real(path.strip("/"))
        return None if real is None else self.files.get(real)

    def real(self, path: str) -> str | None:
        """A path without symbolic links in it, whether or not something is there; None for circles."""
        for _ in range(_MOST_LINKS):
            changed = self._follow_first(path)
            if changed is None:
                return path
            path = changed
        return None

    def add(self, file: File, content: bytes | None) -> None:
        """Put a file on top of what is there; one that takes the place of a folder hides it."""
        self._drop_below(file.path, layer=file.layer)
        self.files[file.path] = file
        self.contents.pop(file.path, None)
        if content is not None:
            self.contents[file.path] = content
        self._register(file.path)

    def add_folder(self, path: str, layer: int) -> None:
        """Put a folder there; it takes the place of a file of a layer below, and a link to one stays."""
        found = self.files.get(path)
        if found is not None and found.link is None and found.layer < layer:
            self._drop(path)

    def place(self, path: str) -> str | None:
        """Where a member of a layer really goes: its folder may be a symbolic link of a layer below."""
        folder, name = posixpath.split(path)
        real = self.real(folder)
        return None if real is None else posixpath.join(real, name)

    def hide(self, path: str, layer: int) -> None:
        """Take out what layers below `layer` have at a path, a folder with all in it."""
        self.hidden.add(path)
        real = self.place(path)
        if real is None:
            return
        found = self.files.get(real)
        if found is not None and found.layer < layer:
            self._drop(real)
        self._drop_below(real, layer=layer)

    def hide_below(self, folder: str, layer: int) -> None:
        """Take out what layers below `layer` have inside a folder."""
        self.hidden.add(folder)
        real = self.real(folder)
        if real is not None:
            self._drop_below(real, layer=layer)

    def _follow_first(self, path: str) -> str | None:
        """The path with its first symbolic link replaced, or None if it has none."""
        parts = path.split("/")
        for depth in range(1, len(parts) + 1):
            prefix = "/".join(parts[:depth])
            found = self.files.get(prefix)
            if found is not None and found.link is not None:
                target = posixpath.join("/", posixpath.dirname(prefix), found.link, *parts[depth:])
                return posixpath.normpath(target).lstrip("/")
        return None

    def _register(self, path: str) -> None:
        """Make the names on the way to a file known; stops at the first folder that knows them already."""
        while path:
            folder, name = posixpath.split(path)
            names = self._names.setdefault(folder, set())
            if name in names:
                return
            names.add(name)
            path = folder

    def _paths_below(self, folder: str | None) -> Iterator[str]:
        pending = [] if folder is None else [folder]
        while pending:
            current = pending.pop()
            for name in self._names.get(current, ()):
                path = posixpath.join(current, name)
                if path in self.files:
                    yield path
                if path in self._names:
                    pending.append(path)

    def _drop_below(self, folder: str, *, layer: int) -> None:
        if folder not in self._names:
            return
        for path in [path for path in self._paths_below(folder) if self.files[path].layer < layer]:
            self._drop(path)

    def _drop(self, path: str) -> None:
        del self.files[path]
        self.contents.pop(path, None)
