"""Reading a few members of a wheel on an index, without fetching all of it."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from zipfile import BadZipFile, ZipFile

import requests

from flbuild.index.http import Http
from flbuild.index.wheels import HEADER_SIZE, NATIVE

TAIL = 64 << 10
"""Bytes of the first request. The directory of most wheels, and METADATA before it, end in that many."""


@dataclass(frozen=True)
class RemoteWheel:
    """The METADATA of a wheel, the names of all its files, and how the first shared library begins."""

    metadata: bytes
    members: tuple[str, ...]
    native: tuple[str, bytes] | None = None


def read_remote(http: Http, url: str, auth: tuple[str, str] | None) -> RemoteWheel | None:
    """What a wheel at `url` says about itself; None if the server gives no parts of files."""

    def get(wanted: str) -> requests.Response:
        headers = {"Range": f"bytes={wanted}", "Accept-Encoding": "identity"}
        # Streamed, so that a server that answers with the whole file is not listened to.
        return http.get(url, headers=headers, auth=auth, stream=True)

    try:
        with ZipFile(RangeFile(get)) as archive:
            members = tuple(archive.namelist())
            metadata = [name for name in members if re.fullmatch(r"[^/]+\.dist-info/METADATA", name)]
            if len(metadata) != 1:
                return None
            return RemoteWheel(archive.read(metadata[0]), members, _first_native(archive))
    except (requests.RequestException, BadZipFile, OSError):
        return None


def _first_native(archive: ZipFile) -> tuple[str, bytes] | None:
    name = next((name for name in archive.namelist() if NATIVE.search(name)), None)
    if name is None:
        return None
    with archive.open(name) as stream:
        return name, stream.read(HEADER_SIZE)


class RangeFile(io.RawIOBase):
    """A seekable file over requests for parts; its end, and the last part that was read, are kept.

    Raises:
        OSError: the server does not answer with the part it was asked for.
    """

    def __init__(self, get: Callable[[str], requests.Response]) -> None:
        self._get = get
        tail = self._part(f"-{TAIL}")
        found = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+)", tail.headers.get("Content-Range", ""))
        if found is None or int(found[2]) - int(found[1]) + 1 != len(tail.content):
            raise OSError("the server gives no parts of files")
        self._size = int(found[3])
        self._tail = self._last = (int(found[1]), tail.content)
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def read(self, size: int = -1) -> bytes:
        end = self._size if size < 0 else min(self._size, self._position + size)
        if self._position >= end:
            return b""
        for start, content in (self._tail, self._last):
            if start <= self._position and end <= start + len(content):
                break
        else:
            # More than was asked for: what is read next lies behind it.
            start, until = self._position, max(end, min(self._size, self._position + TAIL))
            content = self._part(f"{start}-{until - 1}").content
            self._last = (start, content)
        data = content[self._position - start : end - start]
        self._position += len(data)
        return data

    def _part(self, wanted: str) -> requests.Response:
        response = self._get(wanted)
        if response.status_code != 206:
            response.close()
            raise OSError(f"status {response.status_code} instead of a part of the file")
        return response
