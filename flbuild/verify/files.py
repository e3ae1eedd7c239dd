"""Reading layers into a view: each once, hashing everything, keeping little."""

from __future__ import annotations

import gzip
import hashlib
import io
import posixpath
import re
import tarfile
import zlib
from collections.abc import Iterable
from typing import IO, Any, cast

from flbuild.base.unpack import open_plain
from flbuild.errors import HostError
from flbuild.files import CHUNK
from flbuild.progress import Progress
from flbuild.verify.subject import LayerRef, Subject
from flbuild.verify.view import File, FileView

_KEPT = re.compile(
    r"\.dist-info/(METADATA|RECORD|entry_points\.txt|direct_url\.json|top_level\.txt)$"
    r"|\.egg-info(/PKG-INFO)?$|\.egg-link$|\.pth$|/__editable__[^/]*\.py$"
)
"""Files whose content is kept, because it says what is installed."""

_LARGEST_KEPT = 32 << 20
"""Bytes; the RECORD of the largest distributions has a tenth of it."""

_HEAD = 256
"""Bytes kept of the start of executables: enough for the first line of a script."""

_OPAQUE = ".wh..wh..opq"
_WHITEOUT = ".wh."

_UNREADABLE = (tarfile.TarError, zlib.error, gzip.BadGzipFile, EOFError, HostError)


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
        view.read_bytes += layer.size
    return view


def _read_layer(view: FileView, subject: Subject, index: int, layer: LayerRef) -> None:
    with subject.open_layer(layer.digest) as stream:
        packed = _HashingFile(stream)
        try:
            plain = _HashingReader(open_plain(packed))
            _apply(view, plain, index)
            plain.drain()
        except _UNREADABLE as error:
            view.problems.append(f"layer {layer.digest} ({layer.media_type}) cannot be read: {error}")
            return
        packed.drain()
    if packed.digest != layer.digest:
        view.problems.append(f"layer {layer.digest} has the bytes of {packed.digest}")
    if layer.diff_id != plain.digest:
        view.problems.append(
            f"layer {layer.digest} unpacks to {plain.digest}, the config says {layer.diff_id or 'nothing'}"
        )


def _apply(view: FileView, stream: _HashingReader, index: int) -> None:
    """Put a layer on top (OCI image specification, "Applying Changesets")."""
    with tarfile.open(fileobj=cast("IO[bytes]", stream), mode="r|") as tar:
        for member in tar:
            path = _normal(member.name)
            folder, name = posixpath.split(path)
            if name == _OPAQUE:
                view.hide_below(folder, index)
            elif name.startswith(_WHITEOUT):
                view.hide(posixpath.join(folder, name.removeprefix(_WHITEOUT)), index)
            elif member.isdir():
                view.add_folder(path, index)
            elif (place := view.place(path)) is not None:
                _add(view, tar, member, place, index)


def _add(view: FileView, tar: tarfile.TarFile, member: tarfile.TarInfo, path: str, index: int) -> None:
    if member.issym():
        view.add(File(path, 0, member.mode, index, link=member.linkname), None)
        return
    if member.islnk():
        source = view.get(_normal(member.linkname))
        if source is None:
            view.add(File(path, 0, member.mode, index), None)
            return
        linked = File(path, source.size, member.mode, index, source.digest, head=source.head)
        view.add(linked, view.contents.get(source.path))
        return
    content = tar.extractfile(member)
    if content is None:
        view.add(File(path, 0, member.mode, index), None)
        return
    digest = hashlib.sha256()
    kept: list[bytes] | None = [] if _KEPT.search(path) and member.size <= _LARGEST_KEPT else None
    head = b""
    while chunk := content.read(CHUNK):
        digest.update(chunk)
        if kept is not None:
            kept.append(chunk)
        if member.mode & 0o111 and not head:
            head = chunk[:_HEAD]
    file = File(path, member.size, member.mode, index, digest.digest(), head=head)
    view.add(file, None if kept is None else b"".join(kept))


def _normal(name: str) -> str:
    """A member's name as a path inside the image; bytes that are no UTF-8 are shown as escapes."""
    path = posixpath.normpath(posixpath.join("/", name)).lstrip("/")
    return path.encode("utf-8", "backslashreplace").decode()


class _HashingFile(io.RawIOBase):
    """A readable file that hashes what is read from the stream behind it."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._hash = hashlib.sha256()

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, target: Any) -> int:
        """Fill `target` with at most its length; 0 at the end."""
        data = self._stream.read(len(target))
        self._hash.update(data)
        target[: len(data)] = data
        return len(data)

    def drain(self) -> None:
        """Read to the end."""
        while data := self._stream.read(CHUNK):
            self._hash.update(data)

    @property
    def digest(self) -> str:
        """Of everything read so far."""
        return f"sha256:{self._hash.hexdigest()}"


class _HashingReader:
    """As much of a file as tarfile needs to stream it, hashing what it reads."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._hash = hashlib.sha256()

    def read(self, size: int) -> bytes:
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
