"""Compression whose bytes are the same on every machine.

A gzip made by the standard library depends on the zlib that Python was linked with (zlib, zlib-ng, a
distribution's patches), and the compressed bytes are what a layer's digest is made of. libdeflate comes
inside a wheel of one exact version and decides by the data alone. It compresses whole buffers, so the stream
is cut into chunks of a fixed size, each a gzip member of its own; RFC 1952 defines a file of several
members as their concatenation, and readers in Go, C and Python follow it. Chunks also compress in parallel.
"""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import BinaryIO

import deflate

CHUNK = 4 << 20
LEVEL = 6
FORMAT = f"deflate-{LEVEL}-{CHUNK}"
"""Names everything that decides the compressed bytes; part of every layer cache key."""


@dataclass(frozen=True)
class Compressed:
    """What came out: OCI digests of the compressed and the plain bytes, with their sizes."""

    digest: str
    size: int
    diff_id: str
    diff_size: int


def compress(source: BinaryIO, target: BinaryIO) -> Compressed:
    """Compress everything that `source` still holds into `target` as gzip, in bounded memory."""
    plain, packed = hashlib.sha256(), hashlib.sha256()
    plain_size = packed_size = 0
    for chunk, member in _members(source):
        plain.update(chunk)
        plain_size += len(chunk)
        packed.update(member)
        packed_size += len(member)
        target.write(member)
    return Compressed(f"sha256:{packed.hexdigest()}", packed_size, f"sha256:{plain.hexdigest()}", plain_size)


def _members(source: BinaryIO) -> Iterator[tuple[bytes, bytes]]:
    """Each chunk with its gzip member, in order; one empty member for an empty source."""
    workers = min(os.cpu_count() or 1, 8)
    with ThreadPoolExecutor(workers) as pool:
        under_way: deque[tuple[bytes, Future[bytes]]] = deque()
        chunk = _read_exactly(source, CHUNK)
        while True:
            under_way.append((chunk, pool.submit(_member, chunk)))
            chunk = _read_exactly(source, CHUNK)
            if not chunk:
                break
            if len(under_way) > 2 * workers:
                done, member = under_way.popleft()
                yield done, member.result()
        for done, member in under_way:
            yield done, member.result()


def _member(chunk: bytes) -> bytes:
    return bytes(deflate.gzip_compress(chunk, LEVEL))


def _read_exactly(source: BinaryIO, size: int) -> bytes:
    """As many bytes as asked for unless the source ends: chunk borders must not depend on short reads."""
    pieces = []
    while size:
        piece = source.read(size)
        if not piece:
            break
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)
