"""Causal convolution. Rung 1: against the definition, one output at a time, in fp64."""

from __future__ import annotations

import pytest
import torch
from vllm_fl.ops.causal_conv1d import causal_conv1d_fn, causal_conv1d_update

CHANNELS, WIDTH = 6, 4


def reference(
    x: torch.Tensor, history: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, silu: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """x (tokens, channels), history (channels, width - 1): outputs, and the exact next history."""
    inputs = torch.cat([history, x.T], 1)
    out = torch.zeros(x.shape, dtype=torch.float64)
    for t in range(x.shape[0]):
        out[t] = (inputs[:, t : t + WIDTH].double() * weight.double()).sum(1)
    if bias is not None:
        out += bias.double()
    return torch.nn.functional.silu(out) if silu else out, inputs[:, inputs.shape[1] - WIDTH + 1 :]


def make(dtype: torch.dtype, seed: int, slots: int = 8) -> tuple[torch.Tensor, ...]:
    random = torch.Generator().manual_seed(seed)
    states = torch.randn(slots, WIDTH - 1, CHANNELS, generator=random).to(dtype).transpose(1, 2)
    weight = torch.randn(CHANNELS, WIDTH, generator=random).to(dtype)
    bias = torch.randn(CHANNELS, generator=random).to(dtype)
    return states, weight, bias


def starts_of(lengths: list[int]) -> torch.Tensor:
    return torch.tensor([0, *lengths]).cumsum(0).to(torch.int32)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("silu", [True, False])
@pytest.mark.parametrize("lengths", [[1, 0, 5], [2, 3, 4], [3, 1, 2], [0, 0, 0], [70, 1, 4]])
def test_B44_sequences_shorter_than_the_filter_and_empty_ones(
    dtype: torch.dtype, silu: bool, lengths: list[int]
) -> None:
    states, weight, bias = make(dtype, 1)
    before = states.clone()
    slots = torch.tensor([5, 2, 7], dtype=torch.int32)
    known = torch.tensor([True, True, False])
    x = torch.randn(sum(lengths), CHANNELS, generator=torch.Generator().manual_seed(2)).to(dtype)
    kept = x.clone()
    out = causal_conv1d_fn(
        x, weight, bias, states, starts_of(lengths), slots, known, "silu" if silu else None
    )
    assert out.dtype == dtype
    assert torch.equal(x, kept)
    tolerance = 1e-5 if dtype == torch.float32 else 2e-2
    start = 0
    for i, length in enumerate(lengths):
        history = before[slots[i]] if known[i] else torch.zeros_like(before[0])
        wanted, state = reference(x[start : start + length], history, weight, bias, silu)
        torch.testing.assert_close(
            out[start : start + length].double(), wanted, atol=tolerance, rtol=tolerance
        )
        assert torch.equal(states[slots[i]], state if length else before[slots[i]])
        start += length
    untouched = [0, 1, 3, 4, 6]
    assert torch.equal(states[untouched], before[untouched])


@pytest.mark.parametrize("slots", [[3, 1], [-1, 0], [0, 4], [4, -1]])
def test_B28_slots_without_a_sequence_leave_states_alone_and_give_zeros(slots: list[int]) -> None:
    states, weight, bias = make(torch.float32, 3)
    before = states.clone()
    index = torch.tensor(slots)
    x = torch.randn(2, CHANNELS, generator=torch.Generator().manual_seed(4))
    one = causal_conv1d_update(x, states, weight, bias, index)
    after = states.clone()
    states.copy_(before)
    many = causal_conv1d_fn(x, weight, bias, states, starts_of([1, 1]), index, torch.tensor([True, True]))
    torch.testing.assert_close(many, one, atol=1e-6, rtol=1e-6)
    assert torch.equal(states, after)
    for row, slot in enumerate(slots):
        if slot <= 0:
            assert torch.equal(one[row], torch.zeros(CHANNELS))
        else:
            assert not torch.equal(after[slot], before[slot])
    untouched = [slot for slot in range(8) if slot not in slots or slot == 0]
    assert torch.equal(after[untouched], before[untouched])


def test_a_sequence_in_parts_equals_the_sequence_at_once() -> None:
    states, weight, bias = make(torch.float32, 5)
    x = torch.randn(23, CHANNELS, generator=torch.Generator().manual_seed(6))
    slot = torch.tensor([4])
    fresh = torch.tensor([False])
    whole = causal_conv1d_fn(x, weight, bias, states, starts_of([23]), slot, fresh)
    last = states[4].clone()
    outputs = []
    position = 0
    for length in (1, 2, 9, 1, 10):
        part = x[position : position + length]
        known = torch.tensor([position > 0])
        if length == 1:
            outputs.append(causal_conv1d_update(part, states, weight, bias, slot, known))
        else:
            outputs.append(causal_conv1d_fn(part, weight, bias, states, starts_of([length]), slot, known))
        position += length
    torch.testing.assert_close(torch.cat(outputs), whole, atol=1e-6, rtol=1e-6)
    assert torch.equal(states[4], last)


def test_B45_ten_thousand_updates_with_recycled_slots_keep_every_history() -> None:
    random = torch.Generator().manual_seed(7)
    slots_in_all, running = 12, 4
    states, weight, bias = make(torch.float32, 8, slots_in_all)
    held = {slot: states[slot].clone() for slot in range(slots_in_all)}
    busy = [1, 2, 3, 4]
    xs = torch.randn(2500, running, CHANNELS, generator=random)
    for turn, x in enumerate(xs):
        known = [True] * running
        if turn % 17 == 0:  # a request ends, and its place goes to one that remembers nothing
            row = turn // 17 % running
            busy[row] = next(slot for slot in range(1 + turn % 5, slots_in_all) if slot not in busy)
            held[busy[row]] = torch.zeros(CHANNELS, WIDTH - 1)
            known[row] = False
        causal_conv1d_update(x, states, weight, bias, torch.tensor(busy), torch.tensor(known))
        for row, slot in enumerate(busy):
            held[slot] = torch.cat([held[slot][:, 1:], x[row][:, None]], 1)
    assert all(torch.equal(states[slot], state) for slot, state in held.items())


def test_a_state_of_another_dtype_keeps_the_range_of_the_input() -> None:
    states, weight, _ = make(torch.bfloat16, 9)
    x = torch.full((1, CHANNELS), 1e6, dtype=torch.bfloat16)
    causal_conv1d_update(x, states, weight, None, torch.tensor([3]))
    assert torch.equal(states[3][:, -1], x[0])


def test_shapes_and_activations_that_do_not_fit_are_refused() -> None:
    states, weight, bias = make(torch.float32, 10)
    x = torch.zeros(1, CHANNELS)
    slot = torch.tensor([1])
    with pytest.raises(ValueError, match="activation 'gelu'"):
        causal_conv1d_update(x, states, weight, bias, slot, activation="gelu")
    with pytest.raises(ValueError, match="shapes do not fit"):
        causal_conv1d_update(x, states[:, :, :2], weight, bias, slot)
    with pytest.raises(ValueError, match="shapes do not fit"):
        causal_conv1d_fn(x[:, :-1], weight, bias, states, starts_of([1]), slot)
