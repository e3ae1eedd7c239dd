"""The attention formula on padded batches. Rung 1: against a softmax in fp64."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from vllm_fl.attention.formulas import attend, linear_bias, visible


def test_B47_the_scale_of_the_model_holds_where_heads_are_padded() -> None:
    size, padded = 80, 128
    random = torch.Generator().manual_seed(1)
    query, key, value = (torch.randn(2, n, 4, size, generator=random) for n in (3, 7, 7))
    wanted = F.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (query, key, value)))
    widened = (F.pad(x, (0, padded - size)) for x in (query, key, value))
    out = attend(*widened, size**-0.5)
    torch.testing.assert_close(out[..., :size], wanted.transpose(1, 2), atol=1e-6, rtol=1e-5)
    assert not out[..., size:].any()
    other = attend(*(F.pad(x, (0, padded - size)) for x in (query, key, value)), padded**-0.5)
    assert not torch.allclose(other[..., :size], wanted.transpose(1, 2), atol=1e-3)


@pytest.mark.parametrize("queries", [1, 4])
@pytest.mark.parametrize("masked", [True, False])
def test_both_ways_to_compute_agree(queries: int, masked: bool) -> None:
    """A soft cap far above all scores changes nothing but takes the explicit way."""
    random = torch.Generator().manual_seed(queries)
    query = torch.randn(3, queries, 6, 8, generator=random)
    key, value = (torch.randn(3, 9, 2, 8, generator=random) for _ in range(2))
    mask = torch.rand(3, 1, queries, 9, generator=random) > 0.4
    mask[..., 0] = True
    options = {"mask": mask if masked else None}
    explicit = attend(query, key, value, 0.4, soft_cap=1e4, **options)
    torch.testing.assert_close(attend(query, key, value, 0.4, **options), explicit, atol=2e-6, rtol=1e-5)


@pytest.mark.parametrize("soft_cap", [None, 1e4])
def test_a_square_causal_batch_needs_no_mask(soft_cap: float | None) -> None:
    random = torch.Generator().manual_seed(3)
    query, key, value = (torch.randn(2, 5, 4, 8, generator=random) for _ in range(3))
    mask = torch.ones(5, 5, dtype=torch.bool).tril()[None, None]
    wanted = attend(query, key, value, 0.4, mask=mask)
    out = attend(query, key, value, 0.4, square_causal=True, soft_cap=soft_cap)
    torch.testing.assert_close(out, wanted, atol=2e-6, rtol=1e-5)


def test_a_sink_takes_weight_and_gives_nothing() -> None:
    value = torch.ones(1, 2, 1, 4)
    zeros = torch.zeros(1, 1, 1, 4)
    out = attend(
        zeros, torch.zeros(1, 2, 1, 4), value, 1.0, sinks=torch.tensor([torch.log(torch.tensor(2.0))])
    )
    torch.testing.assert_close(out, torch.full((1, 1, 1, 4), 0.5))


def test_visible_keys_by_hand() -> None:
    queries, keys = torch.tensor([[2, 3]]), torch.tensor([[0, 1, 2, 3, 4, 5]])
    count = torch.tensor([5])

    def seen(**options: object) -> list[list[int]]:
        rows = visible(queries, keys, count, **options)[0, 0]  # type: ignore[arg-type]
        return [row.nonzero().flatten().tolist() for row in rows]

    assert seen(causal=True, window=None) == [[0, 1, 2], [0, 1, 2, 3]]
    assert seen(causal=True, window=2) == [[1, 2], [2, 3]]
    assert seen(causal=False, window=None) == [[0, 1, 2, 3, 4], [0, 1, 2, 3, 4]]
    assert seen(causal=False, window=2) == [[1, 2, 3], [2, 3, 4]]


def test_linear_bias_by_hand() -> None:
    bias = linear_bias(torch.tensor([0.5, 0.25]), torch.tensor([[3]]), torch.tensor([[1, 3]]))
    assert bias.tolist() == [[[[-1.0, 0.0]], [[-0.5, 0.0]]]]
