"""One file from one place: streamed, resumed and hashed; and who is wrong when hashes differ."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Protocol

import requests

from flbuild.errors import RemoteGoneError, RemoteMovedError, RemoteRefusedError
from flbuild.files import CHUNK
from flbuild.index.client import IndexClient, IndexFile, short_cause
from flbuild.progress import Progress, Task
from flbuild.settings import index_variable, redact_url

ATTEMPTS = 5
"""Connections for one file; each continues where the one before broke off."""


class Wanted(Protocol):
    """A file pinned by its hash: a locked wheel, or a `FileRef` for a source."""

    @property
    def name(self) -> str: ...
    @property
    def index(self) -> str: ...
    @property
    def filename(self) -> str: ...
    @property
    def sha256(self) -> str: ...
    @property
    def size(self) -> int: ...


def download(
    client: IndexClient, file: Wanted, offer: IndexFile, part: Path, task: Task, progress: Progress
) -> None:
    """Complete `part`, which may hold the beginning that an earlier run left, until it is the locked file.

    Raises:
        RemoteMovedError: the bytes are not the locked ones; nothing is left in `part`.
        RemoteGoneError, RemoteRefusedError, UnreachableError: what the place answers, if it does.
    """
    resumed = part.exists()
    sha256 = _transfer(client, file, offer, part, task)
    if sha256 != file.sha256 and resumed:
        # The beginning that an earlier run left may be of other bytes: once more, all of it.
        task.advance(-part.stat().st_size)
        part.unlink()
        sha256 = _transfer(client, file, offer, part, task)
    if sha256 != file.sha256:
        part.unlink()
        raise mismatch(file, offer, sha256)
    if offer.sha256 not in (None, file.sha256):
        progress.warn(
            f"index '{file.index}' lists a stale hash for {file.filename}; "
            "the bytes it serves are the locked ones"
        )


def mismatch(file: Wanted, offer: IndexFile, got: str) -> RemoteMovedError:
    """The error for bytes with the hash `got`: which of lock, index page and bytes is the odd one out."""
    lines = [f"{file.filename} is not the locked file", f"  lock:  {file.sha256}"]
    lines += [
        f"  index: {offer.sha256 or 'gives no hash'}",
        f"  bytes: {got} from {redact_url(offer.location)}",
    ]
    variable = index_variable(file.index)
    if offer.sha256 == file.sha256:
        cause = "index and lock agree, so the bytes are wrong: a stale or damaged copy in a mirror or proxy"
        remedy = f"retry later, or set {variable} to another mirror"
    elif offer.sha256 == got:
        cause = "index and bytes agree, so the file was replaced after it was locked, or the lock was edited"
        remedy = f"find out why it was replaced; accept it with flbuild lock --upgrade {file.name}"
    elif offer.sha256 is None:
        cause = "the place holds another file of that name; nothing says which one is right"
        remedy = f"set {variable} to another place, or flbuild lock --upgrade {file.name}"
    else:
        cause = "no two of them agree: the index page and the file are out of step"
        remedy = f"retry later, or set {variable} to another mirror"
    return RemoteMovedError("\n".join(lines), cause=cause, remedy=remedy)


def _transfer(client: IndexClient, file: Wanted, offer: IndexFile, part: Path, task: Task) -> str:
    """Append to `part` until the server says that this is all; give its SHA-256."""
    digest = hashlib.sha256()
    cause = "the connection broke off"
    with part.open("a+b") as stream:
        stream.seek(0)
        while chunk := stream.read(CHUNK):
            digest.update(chunk)
            task.advance(len(chunk))
        for _ in range(ATTEMPTS):
            done = stream.tell()
            headers = {"Accept-Encoding": "identity", **({"Range": f"bytes={done}-"} if done else {})}
            auth = client.auth(file.index, offer.location)
            try:
                with client.http.get(offer.location, headers=headers, auth=auth, stream=True) as response:
                    if response.status_code == 416:
                        return digest.hexdigest()
                    _refuse_status(client, file, offer, response.status_code)
                    if done and not _continues(response, done):
                        stream.truncate(0)
                        digest = hashlib.sha256()
                        task.advance(-done)
                    for chunk in response.iter_content(CHUNK):
                        stream.write(chunk)
                        digest.update(chunk)
                        task.advance(len(chunk))
                    stream.flush()
                    os.fsync(stream.fileno())
                    return digest.hexdigest()
            except requests.RequestException as error:
                cause = short_cause(error)
    raise client.unreachable(file.index, file.filename, cause)


def _continues(response: requests.Response, done: int) -> bool:
    return response.status_code == 206 and response.headers.get("Content-Range", "").startswith(
        f"bytes {done}-"
    )


def _refuse_status(client: IndexClient, file: Wanted, offer: IndexFile, status: int) -> None:
    variable = index_variable(file.index)
    place = redact_url(offer.location)
    if status in (404, 410):
        raise RemoteGoneError(
            f"index '{file.index}' lists {file.filename}, but {place} is gone (status {status})",
            remedy=f"set {variable} to a mirror, or put the file in a find-links folder",
        )
    if status in (401, 403, 429):
        raise RemoteRefusedError(
            f"{place} is refused (status {status})",
            cause="too many requests from this address" if status == 429 else "missing or wrong credentials",
            remedy=f"set {index_variable(file.index, 'USERNAME')}, or retry later",
        )
    if status >= 400:
        raise client.unreachable(file.index, file.filename, f"it answers with status {status}")
