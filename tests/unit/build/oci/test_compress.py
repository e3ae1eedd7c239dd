from __future__ import annotations

import gzip
import hashlib
import io
import random
import shutil
import subprocess

import pytest

from flbuild.build.oci.compress import CHUNK, compress


def _compress(data: bytes) -> tuple[bytes, object]:
    target = io.BytesIO()
    result = compress(io.BytesIO(data), target)
    return target.getvalue(), result


class ShortReads(io.BytesIO):
    """A source that gives less than asked for, as sockets and pipes do."""

    def read(self, size: int | None = -1) -> bytes:
        return super().read(min(size or 0, 60_001))


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK + 17])
def test_any_reader_of_gzip_gives_the_same_bytes_back(size: int) -> None:
    data = random.Random(size).randbytes(size)
    packed, result = _compress(data)
    assert gzip.decompress(packed) == data
    assert result.digest == "sha256:" + hashlib.sha256(packed).hexdigest()
    assert result.diff_id == "sha256:" + hashlib.sha256(data).hexdigest()
    assert (result.size, result.diff_size) == (len(packed), size)


def test_the_gzip_program_reads_several_members() -> None:
    data = b"layer" * CHUNK
    packed, _ = _compress(data[: CHUNK + 5])
    program = shutil.which("gzip")
    assert program
    plain = subprocess.run([program, "-dc"], input=packed, capture_output=True, check=True).stdout
    assert plain == data[: CHUNK + 5]


def test_short_reads_do_not_move_chunk_borders() -> None:
    data = random.Random(1).randbytes(CHUNK + 100_000)
    target = io.BytesIO()
    compress(ShortReads(data), target)
    assert target.getvalue() == _compress(data)[0]


FROZEN = "sha256:789bc547d98d662dbaae9ec157fe2eef179cc56d91e1ec0dbd94f1e4ed7c41f7"


def test_the_compressed_bytes_are_frozen() -> None:
    """A new library version or level would change every digest ever published: it must be a decision."""
    data = b"".join(b"%d\n" % number for number in range(200_000))
    _, result = _compress(data)
    assert result.digest == FROZEN
