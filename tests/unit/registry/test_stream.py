from __future__ import annotations

import io

import pytest

from flbuild.registry.stream import PieceStream


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_reads_do_not_depend_on_where_pieces_end(size: int) -> None:
    stream = PieceStream(iter([b"a", b"", b"bcd", b"efgh", b""]))
    read = []
    while piece := stream.read(size):
        read.append(piece)
    assert b"".join(read) == b"abcdefgh"
    assert all(len(piece) == size for piece in read[:-1])


def test_the_rest_is_read_by_draining() -> None:
    pieces = iter([b"abc", b"def"])
    stream = PieceStream(pieces)
    assert stream.read(1) == b"a"
    stream.drain()
    assert next(pieces, None) is None
    assert stream.read(1) == b""


def test_it_can_be_buffered_and_peeked_into() -> None:
    assert io.BufferedReader(PieceStream(iter([b"a", b"bcdef"]))).peek(4)[:4] == b"abcd"
