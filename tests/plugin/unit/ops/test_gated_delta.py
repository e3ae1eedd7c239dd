"""Gated delta rule. Rung 1: against the recurrence, token by token, in fp64."""

from __future__ import annotations

import pytest
import torch
from vllm_fl.ops.gated_delta import Inputs, chunked, plan_chunks, prepare, step

HEADS, KEYS, VALUES = 3, 8, 5


def random_inputs(tokens: int, generator: torch.Generator) -> Inputs:
    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator)

    return Inputs(
        query=torch.nn.functional.normalize(draw(tokens, HEADS, KEYS), dim=-1) * KEYS**-0.5,
        key=torch.nn.functional.normalize(draw(tokens, HEADS, KEYS), dim=-1),
        value=draw(tokens, HEADS, VALUES),
        decay=-draw(tokens, HEADS).exp() * 0.3,
        strength=draw(tokens, HEADS).sigmoid(),
    )


def recurrence(inputs: Inputs, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """One sequence, (heads, values, keys): the three lines of the definition."""
    state = state.double().clone()
    outputs = []
    for t in range(inputs.key.shape[0]):
        for h in range(HEADS):
            k, v = inputs.key[t, h].double(), inputs.value[t, h].double()
            state[h] *= torch.exp(inputs.decay[t, h].double())
            state[h] += torch.outer(inputs.strength[t, h].double() * (v - state[h] @ k), k)
        outputs.append(torch.stack([state[h] @ inputs.query[t, h].double() for h in range(HEADS)]))
    return torch.stack(outputs) if outputs else torch.zeros(0, HEADS, VALUES).double(), state


@pytest.mark.parametrize("lengths", [[1], [63], [64], [65], [130], [5, 0, 140, 64, 1], [0]])
def test_chunks_of_sequences_equal_the_recurrence(lengths: list[int]) -> None:
    generator = torch.Generator().manual_seed(sum(lengths))
    inputs = random_inputs(sum(lengths), generator)
    states = torch.randn(len(lengths), HEADS, VALUES, KEYS, generator=generator)
    before = states.clone()
    outputs, after = chunked(inputs, states, plan_chunks(lengths, torch.device("cpu")))
    assert torch.equal(states, before)
    start = 0
    for i, length in enumerate(lengths):
        part = slice(start, start + length)
        wanted, state = recurrence(inputs.part(part), states[i])
        torch.testing.assert_close(outputs[part].double(), wanted, atol=2e-5, rtol=1e-4)
        torch.testing.assert_close(after[i].double(), state, atol=2e-5, rtol=1e-4)
        start += length


@pytest.mark.parametrize("cut", [1, 40, 64, 129])
def test_a_state_carried_over_continues_the_sequence(cut: int) -> None:
    generator = torch.Generator().manual_seed(cut)
    inputs = random_inputs(130, generator)
    state = torch.zeros(1, HEADS, VALUES, KEYS)
    device = torch.device("cpu")
    whole, last = chunked(inputs, state, plan_chunks([130], device))
    first, middle = chunked(inputs.part(slice(0, cut)), state, plan_chunks([cut], device))
    second, end = chunked(inputs.part(slice(cut, None)), middle, plan_chunks([130 - cut], device))
    torch.testing.assert_close(torch.cat([first, second]), whole, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(end, last, atol=1e-5, rtol=1e-4)


def test_steps_equal_the_recurrence() -> None:
    generator = torch.Generator().manual_seed(3)
    inputs = random_inputs(4, generator)
    states = torch.randn(4, HEADS, VALUES, KEYS, generator=generator)
    outputs, after = step(inputs, states)
    for i in range(4):
        wanted, state = recurrence(inputs.part(slice(i, i + 1)), states[i])
        torch.testing.assert_close(outputs[i : i + 1].double(), wanted, atol=1e-6, rtol=1e-5)
        torch.testing.assert_close(after[i].double(), state, atol=1e-6, rtol=1e-5)


def test_strong_decay_stays_finite() -> None:
    inputs = random_inputs(200, torch.Generator().manual_seed(4))
    inputs = Inputs(inputs.query, inputs.key, inputs.value, inputs.decay * 200, inputs.strength)
    outputs, after = chunked(
        inputs, torch.zeros(1, HEADS, VALUES, KEYS), plan_chunks([200], torch.device("cpu"))
    )
    wanted, _ = recurrence(inputs, torch.zeros(HEADS, VALUES, KEYS))
    assert after.isfinite().all()
    torch.testing.assert_close(outputs.double(), wanted, atol=1e-5, rtol=1e-4)


def test_preparation_follows_the_definition_and_keeps_the_strength_in_fp32() -> None:
    generator = torch.Generator().manual_seed(5)
    tokens, key_heads, heads = 6, 2, 4
    mixed = torch.randn(tokens, 2 * key_heads * KEYS + heads * VALUES, generator=generator).bfloat16()
    a, b = (torch.randn(tokens, heads, generator=generator).bfloat16() * 30 for _ in range(2))
    a_log, dt_bias = torch.randn(heads, generator=generator), torch.randn(heads, generator=generator)
    made = prepare(mixed, a, b, a_log, dt_bias, key_heads, KEYS, VALUES)
    sums = a.double() + dt_bias.double()
    softplus = torch.where(sums > 20, sums, torch.log1p(sums.clamp(max=20).exp()))
    torch.testing.assert_close(made.decay.double(), -a_log.double().exp() * softplus, atol=1e-4, rtol=1e-5)
    assert made.strength.dtype == torch.float32
    torch.testing.assert_close(made.strength.double(), torch.sigmoid(b.double()), atol=1e-7, rtol=1e-5)
    queries = mixed[:, : key_heads * KEYS].double().view(tokens, key_heads, KEYS)
    length = (queries.square().sum(-1, keepdim=True) + 1e-6).sqrt()
    for head in range(heads):
        wanted = queries[:, head // 2] / length[:, head // 2] / KEYS**0.5
        torch.testing.assert_close(made.query[:, head].double(), wanted, atol=1e-6, rtol=1e-5)
    values = mixed[:, 2 * key_heads * KEYS :].view(tokens, heads, VALUES)
    assert torch.equal(made.value, values.float())
