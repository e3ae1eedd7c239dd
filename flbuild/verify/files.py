"""The files of an image as a container sees them: hashes of all, contents of the few that describe others."""

from __future__ import annotations

import gzip
import hashlib
import posixpath
import re
import tarfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import IO, cast

from flbuild.errors import VerificationError
from flbuild.files import CHUNK
from flbuild.progress import Progress
from flbuild.verify.subject import LayerRef, Subject

_KEPT = re.compile(
    r"\.dist-info/(METADATA|RECORD|entry_points\.txt|direct_url\.json|top_level\.txt|WHEEL)$"
    r"|\.egg-info(/PKG-INFO)?$|\.egg-link$|\.pth$|/__editable__[^/]*\.py$"
)
_LARGEST_KEPT = 32 << 20
_HEAD = 256
"""Bytes kept of the start of executables: enough for the first line of a script."""

_OPAQUE = ".wh..wh..opq"
_WHITEOUT = ".wh."


@dataclass(frozen=True)
class File:
    """One file; `digest` is the SHA-256 of its bytes, `head` their start if it is executable."""

    path: str
    size: int
    mode: int
    layer: int
    digest: bytes = b""
    link: str | None = None
    head: bytes = b""


@dataclass
class FileView:
    """Merged layers. Paths have no leading slash. `read` are the indices of the layers that were read."""

    files: dict[str, File] = field(default_factory=dict)
    contents: dict[str, bytes] = field(default_factory=dict)
    hidden: set[str] = field(default_factory=set)
    read: list[int] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def below(self, folder: str) -> Iterator[File]:
        """Every file inside `folder`."""
        prefix = f"{folder.strip('/')}/"
        return (item for path, item in self.files.items() if path.startswith(prefix))

    def get(self, path: str) -> File | None:
        """The file at a path, links to other files followed."""
        for _ in range(40):
            found = self.files.get(path)
            if found is None or found.link is None:
                return found
            path = posixpath.normpath(posixpath.join(posixpath.dirname(path), found.link)).lstrip("/")
        return None


def read_files(subject: Subject, skip: Iterable[str], progress: Progress) -> FileView:
    """Read every layer but those whose digest is in `skip`, each once, checking digest and diff_id.

    What is wrong with a layer as a whole is in `problems`; what can be read of it is in the view.
    """
    view = FileView()
    skipped = set(skip)
    for index, layer in enumerate(subject.layers):
        if layer.digest in skipped:
            continue
        with progress.task(f"read layer {index + 1}/{len(subject.layers)}", layer.size) as task:
            _read_layer(view, subject, index, layer)
            task.advance(layer.size)
        view.read.append(index)
    return view


def _read_layer(view: FileView, subject: Subject, index: int, layer: LayerRef) -> None:
    with subject.open_layer(layer.digest) as stream:
        packed = HashingStream(stream)
        try:
            plain = HashingStream(_plain(packed, layer))
            _apply(view, plain, index)
            plain.drain()
        except (tarfile.TarError, zlib.error, gzip.BadGzipFile, EOFError) as error:
            view.problems.append(f"layer {layer.digest} cannot be read: {error}")
            return
        packed.drain()
    if packed.digest != layer.digest:
        view.problems.append(f"layer {layer.digest} has the bytes of {packed.digest}")
    if layer.diff_id != plain.digest:
        view.problems.append(
            f"layer {layer.digest} unpacks to {plain.digest}, the config says {layer.diff_id or 'nothing'}"
        )


def _plain(stream: HashingStream, layer: LayerRef) -> IO[bytes]:
    if "gzip" in layer.media_type:
        return cast("IO[bytes]", gzip.GzipFile(fileobj=cast("IO[bytes]", stream)))
    if layer.media_type.endswith(".tar"):
        return cast("IO[bytes]", stream)
    raise VerificationError(
        f"layer {layer.digest} has type {layer.media_type}, which flbuild cannot read",
        remedy="verify an image with gzip layers",
    )


def _apply(view: FileView, stream: HashingStream, index: int) -> None:
    added: set[str] = set()
    with tarfile.open(fileobj=cast("IO[bytes]", stream), mode="r|") as tar:
        for member in tar:
            path = posixpath.normpath(member.name).lstrip("/")
            folder, name = posixpath.split(path)
            if name == _OPAQUE:
                _hide_below(view, folder, added)
            elif name.startswith(_WHITEOUT):
                _hide(view, posixpath.join(folder, name.removeprefix(_WHITEOUT)))
            elif not member.isdir():
                added.add(path)
                view.contents.pop(path, None)
                view.files[path] = _file(view, tar, member, path, index)


def _file(view: FileView, tar: tarfile.TarFile, member: tarfile.TarInfo, path: str, index: int) -> File:
    if member.issym():
        return File(path, 0, member.mode, index, link=member.linkname)
    if member.islnk():
        target = view.files.get(posixpath.normpath(member.linkname).lstrip("/"))
        return File(path, target.size if target else 0, member.mode, index, target.digest if target else b"")
    content = tar.extractfile(member)
    if content is None:
        return File(path, 0, member.mode, index)
    digest = hashlib.sha256()
    keep = _KEPT.search(path) is not None and member.size <= _LARGEST_KEPT
    kept = []
    head = b""
    while chunk := content.read(CHUNK):
        digest.update(chunk)
        if keep:
            kept.append(chunk)
        if member.mode & 0o111 and not head:
            head = chunk[:_HEAD]
    if keep:
        view.contents[path] = b"".join(kept)
    return File(path, member.size, member.mode, index, digest.digest(), head=head)


def _hide_below(view: FileView, folder: str, keep: set[str]) -> None:
    view.hidden.add(folder)
    for path in [item.path for item in view.below(folder) if item.path not in keep]:
        _drop(view, path)


def _hide(view: FileView, path: str) -> None:
    view.hidden.add(path)
    if path in view.files:
        _drop(view, path)
    for inside in [item.path for item in view.below(path)]:
        _drop(view, inside)


def _drop(view: FileView, path: str) -> None:
    view.files.pop(path, None)
    view.contents.pop(path, None)


class HashingStream:
    """A readable stream that hashes what is read through it."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._hash = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes."""
        data = self._stream.read(size)
        self._hash.update(data)
        return data

    def drain(self) -> None:
        """Read to the end."""
        while self.read(CHUNK):
            pass

    @property
    def digest(self) -> str:
        """Of everything read so far."""
        return f"sha256:{self._hash.hexdigest()}"
