"""How steps are cut into batches. Rung 1: integers."""

from __future__ import annotations

import pytest
import torch
from vllm_fl.attention import batching
from vllm_fl.attention.batching import Piece, batches, pieces

CPU = torch.device("cpu")


def test_pieces_see_the_keys_they_need_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "QUERY_CHUNK", 4)
    starts, lengths = [0, 6, 6, 7], [16, 3, 9]
    assert list(pieces(starts, lengths, causal=True, window=None)) == [
        Piece(0, 0, 4, 10, 0, 14),
        Piece(0, 4, 2, 14, 0, 16),
        Piece(2, 6, 1, 8, 0, 9),
    ]
    assert [piece[4:] for piece in pieces(starts, lengths, causal=True, window=3)] == [
        (8, 14),
        (12, 16),
        (6, 9),
    ]
    assert [piece[4:] for piece in pieces(starts, lengths, causal=False, window=3)] == [
        (8, 16),
        (12, 16),
        (6, 9),
    ]


def test_decodes_of_a_step_are_one_batch_whose_padding_repeats_the_last_key() -> None:
    (batch,) = batches(
        pieces([0, 1, 2], [3, 5], causal=True, window=None), causal=True, window=None, device=CPU
    )
    assert batch.requests.tolist() == [1, 0]
    assert batch.rows.tolist() == [1, 0]
    assert batch.key_positions.tolist() == [[0, 1, 2, 3, 4], [0, 1, 2, 2, 2]]
    assert batch.mask is not None
    assert batch.mask[:, 0, 0].tolist() == [[True] * 5, [True, True, True, False, False]]


@pytest.mark.parametrize(
    ("starts", "lengths", "causal", "square"),
    [([0, 1, 2], [4, 4], True, False), ([0, 6], [6], True, True), ([0, 3, 6], [3, 3], False, False)],
)
def test_a_batch_that_needs_no_mask_has_none(
    starts: list[int], lengths: list[int], causal: bool, square: bool
) -> None:
    (batch,) = batches(
        pieces(starts, lengths, causal=causal, window=None), causal=causal, window=None, device=CPU
    )
    assert batch.mask is None
    assert batch.square_causal is square


def test_batches_stay_below_the_limit_and_pad_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "BATCH_LIMIT", 64 * 1000)
    lengths = [900, 10, 12, 14, 500, 490]
    made = batches(
        pieces(list(range(7)), lengths, causal=True, window=None), causal=True, window=None, device=CPU
    )
    assert [batch.key_positions.shape for batch in made] == [(1, 900), (2, 500), (3, 14)]
    assert sorted(row for batch in made for row in batch.rows.tolist()) == list(range(6))


def test_a_step_without_queries_has_no_batches() -> None:
    assert batches(pieces([0, 0], [7], causal=True, window=None), causal=True, window=None, device=CPU) == ()
