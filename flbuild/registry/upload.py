"""Putting one blob into a repository, in one request or in chunks that survive broken connections."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import IO, Protocol

import requests

from flbuild.errors import FlbuildError, RemoteMovedError, UnreachableError
from flbuild.registry.reference import Reference
from flbuild.registry.transport import error_codes

CHUNK = 16 << 20
"""Bytes per request of a large upload, and what it holds in memory."""

ATTEMPTS = 4
"""How often a chunk is sent, and how often an upload that the registry forgot starts over."""

_BINARY = {"Content-Type": "application/octet-stream"}


class Repository(Protocol):
    """What an upload needs of a registry client."""

    def ask(
        self,
        reference: Reference,
        method: str,
        path: str,
        *,
        push: bool = False,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, str] | None = None,
        data: bytes | None = None,
    ) -> requests.Response:
        """One request about a repository; `path` is below it, or absolute."""

    def has_blob(self, reference: Reference, digest: str) -> bool:
        """Whether the repository has a blob."""

    def failed(self, reference: Reference, response: requests.Response, what: str) -> FlbuildError:
        """The error for a response with a bad status."""

    def unreachable(self, reference: Reference, cause: str) -> UnreachableError:
        """The error for a registry that does not work."""


class _LostError(Exception):
    """The registry has forgotten an upload, or bytes of it."""


class Upload:
    """One blob on its way.

    Args:
        open_source: opens the bytes from their start; asked again if the registry forgets the upload.
        sent: told of every byte that arrived, and with a negative number of bytes that were lost again.
    """

    def __init__(
        self,
        repository: Repository,
        target: Reference,
        digest: str,
        size: int,
        open_source: Callable[[], IO[bytes]],
        sent: Callable[[int], None],
    ) -> None:
        self._repository = repository
        self._target = target
        self._digest = digest
        self._size = size
        self._open_source = open_source
        self._sent = sent
        self._arrived = 0

    def run(self, location: str | None = None) -> None:
        """Upload to `location`, or to a place that the registry names."""
        for _ in range(ATTEMPTS):
            try:
                self._run(location or self._start())
                return
            except _LostError:
                self._report(0)
                location = None
        raise self._repository.unreachable(self._target, f"it forgets uploads of {self._digest}")

    def _start(self) -> str:
        return self._location(self._repository.ask(self._target, "POST", "blobs/uploads/", push=True))

    def _run(self, location: str) -> None:
        with self._open_source() as source:
            if self._size <= CHUNK:
                self._finish(location, source.read())
                self._report(self._size)
                return
            offset = 0
            while piece := _read(source, CHUNK):
                location = self._send(location, offset, piece)
                offset += len(piece)
                self._report(offset)
        self._finish(location, b"")

    def _send(self, location: str, offset: int, piece: bytes) -> str:
        """Send a chunk; after a broken request, what of it has not arrived."""
        start, end = offset, offset + len(piece)
        for attempt in range(ATTEMPTS):
            try:
                return self._patch(location, start, piece[start - offset :])
            except UnreachableError:
                if attempt + 1 == ATTEMPTS:
                    raise
            location, start = self._progress(location)
            if start == end:
                return location
            if not offset <= start < end:
                raise _LostError
            self._report(start)
        raise AssertionError("the last attempt returns or raises")

    def _patch(self, location: str, start: int, piece: bytes) -> str:
        headers = {**_BINARY, "Content-Range": f"{start}-{start + len(piece) - 1}"}
        response = self._repository.ask(
            self._target, "PATCH", location, headers=headers, data=piece, push=True
        )
        if response.status_code >= 500 or response.status_code == 416:
            raise self._repository.unreachable(
                self._target, f"it answers a chunk with status {response.status_code}"
            )
        return self._location(response)

    def _progress(self, location: str) -> tuple[str, int]:
        """Where the upload goes on, and how many of its bytes the registry has."""
        response = self._repository.ask(self._target, "GET", location, push=True)
        if response.status_code == 404:
            raise _LostError
        if response.status_code not in (202, 204):
            raise self._repository.failed(self._target, response, "upload")
        last = response.headers.get("Range", "").rpartition("-")[2]
        # "0-0" is what registries say of an empty upload.
        arrived = int(last) + 1 if last.isdigit() and int(last) else 0
        return response.headers.get("Location", location), arrived

    def _finish(self, location: str, rest: bytes) -> None:
        response = self._repository.ask(
            self._target,
            "PUT",
            location,
            params={"digest": self._digest},
            headers=_BINARY,
            data=rest,
            push=True,
        )
        if response.status_code == 404:
            # Also the answer to a request that was repeated because the first answer got lost.
            if self._repository.has_blob(self._target, self._digest):
                return
            raise _LostError
        if "DIGEST_INVALID" in error_codes(response):
            raise RemoteMovedError(
                f"{self._target}: the bytes that arrived are not those of {self._digest}",
                cause="the file changed on this machine's disk, or a proxy changes what is sent",
                remedy="run the command again; if it fails again, empty the cache folder",
            )
        if response.status_code != 201:
            raise self._repository.failed(self._target, response, f"blob {self._digest}")
        stated = response.headers.get("Docker-Content-Digest", self._digest)
        if stated.startswith("sha256:") and stated != self._digest:
            raise RemoteMovedError(
                f"{self._target}: a blob was stored under another digest\n"
                f"  sent:   {self._digest}\n  stored: {stated}"
            )

    def _location(self, response: requests.Response) -> str:
        if response.status_code == 404 and "BLOB_UPLOAD_UNKNOWN" in error_codes(response):
            raise _LostError
        location = response.headers.get("Location")
        if response.status_code != 202 or location is None:
            raise self._repository.failed(self._target, response, "upload")
        return location

    def _report(self, arrived: int) -> None:
        self._sent(arrived - self._arrived)
        self._arrived = arrived


def _read(source: IO[bytes], size: int) -> bytes:
    """As many bytes as asked for, unless the source ends."""
    pieces = []
    while size and (piece := source.read(size)):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)
