"""The files of a base, layer upon layer: every path, and the content of those that say what is installed."""

from __future__ import annotations

import posixpath
import re
import tarfile
from collections.abc import Iterator
from typing import IO

_TOLD = re.compile(
    r"""
    \.dist-info/(METADATA|RECORD|direct_url\.json|top_level\.txt)$
    | \.egg-info/(PKG-INFO|installed-files\.txt|top_level\.txt)$
    | \.egg-info$ | \.egg-link$ | \.pth$ | /__editable__[^/]*\.py$
    | ^var/lib/dpkg/status$ | ^var/lib/dpkg/status\.d/[^/]+$
    """,
    re.VERBOSE,
)
"""Files whose content is kept."""

_OPAQUE = ".wh..wh..opq"
_WHITEOUT = ".wh."
_LARGEST = 16 << 20
"""Bytes; no file that describes an installation is larger."""


class Tree:
    """What a container would see. Paths have no leading slash."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.links: dict[str, str] = {}
        self.contents: dict[str, bytes] = {}

    def apply(self, stream: IO[bytes]) -> None:
        """Put one layer, an uncompressed tar, on top (OCI image specification, "Applying Changesets")."""
        added: set[str] = set()
        with tarfile.open(fileobj=stream, mode="r|") as tar:
            for member in tar:
                path = posixpath.normpath(member.name).lstrip("/")
                folder, name = posixpath.split(path)
                if name == _OPAQUE:
                    self._hide_below(folder, added)
                elif name.startswith(_WHITEOUT):
                    self._hide(posixpath.join(folder, name.removeprefix(_WHITEOUT)))
                elif not member.isdir():
                    added.add(path)
                    self._add(path, member, tar)

    def below(self, folder: str) -> Iterator[str]:
        """Every path inside `folder`."""
        prefix = f"{folder}/"
        return (path for path in self.files if path.startswith(prefix))

    def _add(self, path: str, member: tarfile.TarInfo, tar: tarfile.TarFile) -> None:
        self.files.add(path)
        if member.issym():
            self.links[path] = member.linkname
        elif member.isreg() and member.size <= _LARGEST and _TOLD.search(path):
            content = tar.extractfile(member)
            self.contents[path] = content.read() if content is not None else b""

    def _hide_below(self, folder: str, keep: set[str]) -> None:
        for path in [path for path in self.below(folder) if path not in keep]:
            self._drop(path)

    def _hide(self, path: str) -> None:
        """Take out a file, or a folder with all in it."""
        if path in self.files:
            self._drop(path)
        else:
            for inside in list(self.below(path)):
                self._drop(inside)

    def _drop(self, path: str) -> None:
        self.files.discard(path)
        self.links.pop(path, None)
        self.contents.pop(path, None)
