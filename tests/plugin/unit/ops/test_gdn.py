"""The gated delta network layer. Rung 1: the layer's core against the recurrence, request by request."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from vllm.forward_context import ForwardContext, override_forward_context
from vllm.v1.attention.backend import CommonAttentionMetadata
from vllm_fl.ops.gated_delta import prepare
from vllm_fl.ops.gdn import (
    PlannedGDNBackend,
    PlannedGDNMetadata,
    PlannedGDNMetadataBuilder,
    QwenGatedDeltaNetAttentionFL,
)

KEY_HEADS, HEADS, KEYS, VALUES, WIDTH, SLOTS = 2, 4, 8, 6, 4, 9
CHANNELS = 2 * KEY_HEADS * KEYS + HEADS * VALUES
NAME = "model.layers.0.linear_attn"


class Core(QwenGatedDeltaNetAttentionFL):
    """The layer without its projections."""

    def __init__(self, seed: int = 0) -> None:
        torch.nn.Module.__init__(self)
        random = torch.Generator().manual_seed(seed)
        self.prefix, self.tp_size, self.activation = NAME, 1, "silu"
        self.num_k_heads, self.num_v_heads = KEY_HEADS, HEADS
        self.head_k_dim, self.head_v_dim = KEYS, VALUES
        self.A_log = torch.randn(HEADS, generator=random)
        self.dt_bias = torch.randn(HEADS, generator=random)
        weight = torch.randn(CHANNELS, 1, WIDTH, generator=random) * 0.5
        self.conv1d = SimpleNamespace(weight=weight, bias=None)
        self.kv_cache = (
            torch.randn(SLOTS, WIDTH - 1, CHANNELS, generator=random),
            torch.randn(SLOTS, HEADS, VALUES, KEYS, generator=random),
        )


def common(cached: list[int], new: list[int], slots: list[int]) -> CommonAttentionMetadata:
    starts = torch.tensor([0, *new]).cumsum(0).to(torch.int32)
    lengths = torch.tensor([c + n for c, n in zip(cached, new, strict=True)], dtype=torch.int32)
    return CommonAttentionMetadata(
        query_start_loc=starts,
        query_start_loc_cpu=starts,
        seq_lens=lengths,
        seq_lens_cpu_upper_bound=lengths,
        num_reqs=len(new),
        num_actual_tokens=sum(new),
        max_query_len=max(new),
        max_seq_len=int(lengths.max()),
        block_table_tensor=torch.tensor(slots, dtype=torch.int32)[:, None],
        slot_mapping=torch.zeros(sum(new), dtype=torch.int64),
    )


@pytest.fixture
def builder(vllm_config: Any) -> PlannedGDNMetadataBuilder:
    from vllm.v1.kv_cache_interface import MambaSpec

    spec = MambaSpec(
        block_size=16,
        shapes=((WIDTH - 1, CHANNELS), (HEADS, VALUES, KEYS)),
        dtypes=(torch.float32, torch.float32),
    )
    return PlannedGDNMetadataBuilder(spec, [NAME], vllm_config, torch.device("cpu"))


def run(core: Core, metadata: PlannedGDNMetadata | None, inputs: tuple[torch.Tensor, ...]) -> torch.Tensor:
    out = torch.zeros(inputs[0].shape[0], HEADS, VALUES)
    steps = None if metadata is None else {NAME: metadata}
    context = ForwardContext(no_compile_layers={}, attn_metadata=steps, slot_mapping={})
    with override_forward_context(context):
        core._forward_core(*inputs, out)
    return out


def one_request(
    core: Core, parts: tuple[torch.Tensor, ...], history: torch.Tensor, state: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Outputs, next history and next state, in fp64 and step by step."""
    mixed, b, a = parts
    inputs = torch.cat([history, mixed]).double()
    weight = core.conv1d.weight[:, 0].double()
    windows = [(inputs[t : t + WIDTH].T * weight).sum(1) for t in range(mixed.shape[0])]
    convolved = F.silu(torch.stack(windows)).float()
    made = prepare(convolved, a, b, core.A_log, core.dt_bias, KEY_HEADS, KEYS, VALUES)
    state = state.double().clone()
    outputs = []
    for t in range(mixed.shape[0]):
        state *= made.decay[t].double().exp()[:, None, None]
        error = made.value[t].double() - (state @ made.key[t].double()[..., None])[..., 0]
        state += (made.strength[t].double()[:, None] * error)[..., None] * made.key[t].double()[:, None]
        outputs.append((state @ made.query[t].double()[..., None])[..., 0])
    return torch.stack(outputs), inputs[-WIDTH + 1 :].float(), state


def draw(tokens: int, seed: int) -> tuple[torch.Tensor, ...]:
    random = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(tokens, size, generator=random) for size in (CHANNELS, HEADS, HEADS))


CASES = [
    ([5, 9], [1, 1], [3, 1]),  # decodes
    ([0, 0, 0], [5, 70, 2], [4, 2, 8]),  # prompts
    ([7, 0, 30], [1, 66, 3], [1, 5, 6]),  # a decode, a prompt, a later chunk
    ([0, 0], [1, 9], [7, 3]),  # a prompt of one token runs as a decode
    ([0, 0], [1, 1], [7, 3]),  # and so it does alone
]


@pytest.mark.parametrize(("cached", "new", "slots"), CASES)
def test_B95_every_mix_of_requests_equals_the_recurrence(
    cached: list[int], new: list[int], slots: list[int], builder: PlannedGDNMetadataBuilder
) -> None:
    core = Core()
    history, states = (cache.clone() for cache in core.kv_cache)
    inputs = draw(sum(new), 1)
    out = run(core, builder.build(0, common(cached, new, slots)), inputs)
    start = 0
    for i, slot in enumerate(slots):
        rows = slice(start, start + new[i])
        fresh = cached[i] == 0
        wanted, next_history, next_state = one_request(
            core,
            tuple(part[rows] for part in inputs),
            torch.zeros_like(history[slot]) if fresh else history[slot],
            torch.zeros_like(states[slot]) if fresh else states[slot],
        )
        torch.testing.assert_close(out[rows].double(), wanted, atol=2e-5, rtol=1e-4)
        assert torch.equal(core.kv_cache[0][slot], next_history)
        torch.testing.assert_close(core.kv_cache[1][slot].double(), next_state, atol=2e-5, rtol=1e-4)
        start += new[i]
    untouched = [slot for slot in range(SLOTS) if slot not in slots]
    assert torch.equal(core.kv_cache[0][untouched], history[untouched])
    assert torch.equal(core.kv_cache[1][untouched], states[untouched])


@pytest.mark.parametrize("slots", [[3, 0], [0, 2]])
def test_B28_a_request_in_the_null_block_gives_zeros_and_writes_nothing(
    slots: list[int], builder: PlannedGDNMetadataBuilder
) -> None:
    core = Core()
    before = [cache.clone() for cache in core.kv_cache]
    out = run(core, builder.build(0, common([5, 9], [1, 1], slots)), draw(2, 2))
    null = slots.index(0)
    assert torch.equal(out[null], torch.zeros(HEADS, VALUES))
    assert out[1 - null].any()
    for cache, kept in zip(core.kv_cache, before, strict=True):
        assert torch.equal(cache[0], kept[0])


def test_rows_that_pad_a_step_and_a_profile_run_stay_zero(builder: PlannedGDNMetadataBuilder) -> None:
    core = Core()
    metadata = builder.build(0, common([5], [1], [3]))
    out = run(core, metadata, draw(4, 3))
    assert out[0].any()
    assert not out[1:].any()
    assert not run(core, None, draw(4, 3)).any()


def test_the_layer_brings_a_backend_that_plans_prompts_once(builder: PlannedGDNMetadataBuilder) -> None:
    assert Core().get_attn_backend() is PlannedGDNBackend
    assert PlannedGDNBackend.get_builder_cls() is PlannedGDNMetadataBuilder
    metadata = builder.build(0, common([7, 0, 30], [1, 66, 3], [1, 5, 6]))
    assert metadata.chunks is not None
    assert metadata.chunks.active == (2, 1)
    assert metadata.continued.tolist() == [True, False, True]
    assert builder.build(0, common([7], [1], [1])).chunks is None
