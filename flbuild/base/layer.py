"""What one layer says: the paths it adds and hides, and the content of files that describe installations."""

from __future__ import annotations

import gzip
import json
import posixpath
import re
import tarfile
from dataclasses import dataclass, field
from typing import IO

FORMAT = 1
"""Grows when more or other facts are kept, so that older notes of layers are not used."""

_TOLD = re.compile(
    r"""
    \.dist-info/(METADATA|RECORD|direct_url\.json|top_level\.txt)$
    | \.egg-info/(PKG-INFO|installed-files\.txt|top_level\.txt)$
    | \.egg-info$ | \.egg-link$ | \.pth$ | /__editable__[^/]*\.py$
    | \.egg/EGG-INFO/(PKG-INFO|top_level\.txt)$
    | ^var/lib/dpkg/status$ | ^var/lib/dpkg/status\.d/[^/]+$
    """,
    re.VERBOSE,
)
"""Files whose content is kept."""

LIBC = re.compile(r"^(?:usr/)?lib(?:32|64)?/(?:[^/]+-linux-gnu[^/]*/)?libc(?:\.so\.6|-[0-9.]+\.so)$")
"""The C library, of which only the version is kept."""

_LIBC_VERSION = re.compile(rb"GNU C Library [^\n]*release version (\d+\.\d+)")
_OPAQUE = ".wh..wh..opq"
_WHITEOUT = ".wh."
_LARGEST = 16 << 20
"""Bytes; no file that describes an installation is larger."""

FILE, FOLDER, SYMLINK, HARDLINK = "file", "folder", "symlink", "hardlink"


@dataclass(frozen=True)
class Entry:
    """A path without leading slash; `target` is set for links, of hard links without leading slash."""

    path: str
    kind: str
    target: str = ""


@dataclass
class LayerFacts:
    """One layer. `whiteouts` and `opaque` hide paths of the layers below, never of this one."""

    entries: list[Entry] = field(default_factory=list)
    contents: dict[str, bytes] = field(default_factory=dict)
    whiteouts: list[str] = field(default_factory=list)
    opaque: list[str] = field(default_factory=list)

    def pack(self) -> bytes:
        """These facts as bytes, to be kept."""
        content = {
            "entries": [(entry.path, entry.kind, entry.target) for entry in self.entries],
            "contents": {path: text.decode("latin-1") for path, text in self.contents.items()},
            "whiteouts": self.whiteouts,
            "opaque": self.opaque,
        }
        return gzip.compress(json.dumps(content).encode(), compresslevel=3, mtime=0)

    @classmethod
    def unpack(cls, packed: bytes) -> LayerFacts:
        """The facts in bytes that `pack` made; ValueError or OSError for others."""
        content = json.loads(gzip.decompress(packed))
        return cls(
            [Entry(*item) for item in content["entries"]],
            {path: text.encode("latin-1") for path, text in content["contents"].items()},
            content["whiteouts"],
            content["opaque"],
        )


def read_layer(stream: IO[bytes]) -> LayerFacts:
    """Read an uncompressed layer once (OCI image specification, "Image Layer Filesystem Changeset")."""
    facts = LayerFacts()
    with tarfile.open(fileobj=stream, mode="r|") as tar:
        for member in tar:
            path = _inside(member.name)
            # A name that is no UTF-8 cannot be written to a lock; nothing that installs packages makes one.
            if path is not None and _is_text(path):
                _add(facts, path, member, tar)
    return facts


def _add(facts: LayerFacts, path: str, member: tarfile.TarInfo, tar: tarfile.TarFile) -> None:
    folder, name = posixpath.split(path)
    if name == _OPAQUE:
        facts.opaque.append(folder)
    elif name.startswith(_WHITEOUT):
        facts.whiteouts.append(posixpath.join(folder, name.removeprefix(_WHITEOUT)))
    elif member.isdir():
        facts.entries.append(Entry(path, FOLDER))
    elif member.issym():
        facts.entries.append(Entry(path, SYMLINK, member.linkname))
    elif member.islnk():
        facts.entries.append(Entry(path, HARDLINK, _inside(member.linkname) or ""))
    else:
        facts.entries.append(Entry(path, FILE))
        if member.isreg() and member.size <= _LARGEST:
            _keep(facts, path, member, tar)


def _keep(facts: LayerFacts, path: str, member: tarfile.TarInfo, tar: tarfile.TarFile) -> None:
    told, libc = _TOLD.search(path), LIBC.search(path)
    stream = tar.extractfile(member) if told or libc else None
    if stream is None:
        return
    content = stream.read()
    if told:
        facts.contents[path] = content
    elif version := _LIBC_VERSION.search(content):
        facts.contents[path] = version[1]


def _inside(name: str) -> str | None:
    """A member's name as a path below the root, None for one that is the root or points out of it."""
    path = posixpath.normpath(name).lstrip("/")
    return None if path in ("", ".") or path.split("/", 1)[0] == ".." else path


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
