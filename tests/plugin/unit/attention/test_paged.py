"""Paged attention. Rung 1: against the formula, one query and head at a time, in fp64."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from vllm.v1.attention.backend import AttentionBackend, AttentionType
from vllm_fl.attention import batching
from vllm_fl.attention.paged import PagedImpl, PagedMetadataBuilder, ReferenceAttentionBackend

from tests.plugin.unit.attention.cases import Step, dense_attention, make_step

SCALE = 0.3
SEED_LENGTHS = [
    ([0], [1]),
    ([0, 0, 0], [5, 16, 17]),  # prompts
    ([3, 40, 15, 16], [1, 1, 1, 1]),  # decodes of mixed length
    ([32, 0, 7], [20, 9, 1]),  # a cached prefix, a prompt, a decode
    ([128], [33]),  # a later chunk
    ([4, 0, 4], [0, 3, 1]),  # a request that has nothing to do
]


def build(step: Step, **common: Any) -> Any:
    builder = PagedMetadataBuilder(None, [], None, torch.device("cpu"))  # type: ignore[arg-type]
    return builder.build(0, step.common(**common))


def run(
    step: Step,
    *,
    heads: int = 4,
    kv_heads: int = 2,
    dim: int = 8,
    dtype: torch.dtype = torch.float32,
    page_padding: int = 0,
    stale: float | None = None,
    padding: int = 0,
    causal: bool = True,
    seed: int = 0,
    **options: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Output of the backend for all rows, and the dense formula's for the real ones."""
    random = torch.Generator().manual_seed(seed)
    impl = PagedImpl(heads, dim, SCALE, kv_heads, **options)
    block = step.block_size * kv_heads * 2 * dim
    memory = torch.full((step.blocks, block + page_padding), 0.0 if stale is None else stale, dtype=dtype)
    cache = memory[:, :block].view(step.blocks, step.block_size, kv_heads, 2 * dim)
    keys = [torch.randn(n, kv_heads, dim, generator=random).to(dtype) for n in step.lengths]
    values = [torch.randn(n, kv_heads, dim, generator=random).to(dtype) for n in step.lengths]
    encoder = impl.attn_type != AttentionType.DECODER
    for request, cached in enumerate(step.cached):
        if not encoder:
            impl.do_kv_cache_update(
                None, keys[request][:cached], values[request][:cached], cache, step.slots(request, 0, cached)
            )
    pad = torch.zeros(padding, kv_heads, dim, dtype=dtype)
    key = torch.cat([*(k[c:] for k, c in zip(keys, step.cached, strict=True)), pad])
    value = torch.cat([*(v[c:] for v, c in zip(values, step.cached, strict=True)), pad])
    query = torch.randn(key.shape[0], heads, dim, generator=random).to(dtype)
    common = step.common(padding=padding, causal=causal)
    impl.do_kv_cache_update(None, key, value, cache, common.slot_mapping)
    output = torch.full_like(query, float("nan"))
    metadata = build(step, padding=padding, causal=causal)
    assert impl.forward(None, query, key, value, cache, metadata, output) is output
    wanted = []
    for request, (start, end) in enumerate(itertools.pairwise(common.query_start_loc_cpu.tolist())):
        wanted.append(
            dense_attention(
                query[start:end],
                keys[request],
                values[request],
                SCALE,
                causal=causal and not encoder,
                window=options.get("sliding_window"),
                soft_cap=options.get("logits_soft_cap"),
                slopes=None if options.get("alibi_slopes") is None else torch.tensor(options["alibi_slopes"]),
                sinks=options.get("sinks"),
            )
        )
    return output, torch.cat(wanted)


@pytest.mark.parametrize(("cached", "new"), SEED_LENGTHS)
@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 4), (4, 1), (8, 2), (8, 1)])
def test_every_mix_of_requests_equals_the_dense_formula(
    cached: list[int], new: list[int], heads: int, kv_heads: int
) -> None:
    step = make_step(cached, new, generator=torch.Generator().manual_seed(1))
    output, wanted = run(step, heads=heads, kv_heads=kv_heads)
    torch.testing.assert_close(output.double(), wanted, atol=2e-6, rtol=2e-6)


OPTIONS: list[dict[str, Any]] = [
    {"sliding_window": 1},
    {"sliding_window": 7},
    {"sliding_window": 24},
    {"logits_soft_cap": 1.5},
    {"alibi_slopes": [0.5, 0.25, 0.125, 0.0625]},
    {"sinks": torch.tensor([0.3, -1.0, 2.0, 0.0])},
    {"sliding_window": 9, "logits_soft_cap": 2.0, "alibi_slopes": [0.5, 0.1, 0.2, 0.3]},
    {"sliding_window": 9, "sinks": torch.tensor([0.3, -1.0, 2.0, 0.0])},
    {"causal": False},
    {"causal": False, "sliding_window": 6},
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "+".join(options))
@pytest.mark.parametrize(("cached", "new"), SEED_LENGTHS[1:4])
def test_B64_windows_caps_biases_and_sinks_equal_the_dense_formula(
    cached: list[int], new: list[int], options: dict[str, Any]
) -> None:
    step = make_step(cached, new, generator=torch.Generator().manual_seed(2))
    output, wanted = run(step, **options)
    torch.testing.assert_close(output.double(), wanted, atol=3e-6, rtol=3e-6)


@pytest.mark.parametrize("options", [{}, {"sliding_window": 7}, {"logits_soft_cap": 1.5}])
@pytest.mark.parametrize("kind", [AttentionType.ENCODER_ONLY, AttentionType.ENCODER])
def test_encoders_see_their_whole_request_and_no_cache(kind: str, options: dict[str, Any]) -> None:
    step = make_step([0, 0, 0], [5, 1, 18], generator=torch.Generator().manual_seed(3))
    output, wanted = run(step, attn_type=kind, **options)
    torch.testing.assert_close(output.double(), wanted, atol=2e-6, rtol=2e-6)


@pytest.mark.parametrize("seed", range(12))
def test_random_steps_equal_the_dense_formula_in_bfloat16(seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    count = int(torch.randint(1, 6, (), generator=random))
    cached = torch.randint(0, 50, (count,), generator=random).tolist()
    new = (torch.randint(0, 24, (count,), generator=random) ** 2 // 24).tolist()
    step = make_step(cached, new, block_size=[16, 32, 128][seed % 3], generator=random)
    output, wanted = run(step, heads=8, kv_heads=[1, 2, 8][seed % 3], dtype=torch.bfloat16, seed=seed)
    torch.testing.assert_close(output.double(), wanted, atol=2e-2, rtol=2e-2)


@pytest.mark.parametrize("chunk", [7, 64])
@pytest.mark.parametrize("limit", [1, 1 << 22])
@pytest.mark.parametrize("window", [None, 13])
def test_cutting_queries_and_batches_changes_nothing(
    chunk: int, limit: int, window: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batching, "QUERY_CHUNK", chunk)
    monkeypatch.setattr(batching, "BATCH_LIMIT", limit)
    step = make_step([10, 0, 3, 30], [40, 21, 1, 1], generator=torch.Generator().manual_seed(4))
    output, wanted = run(step, sliding_window=window)
    torch.testing.assert_close(output.double(), wanted, atol=2e-6, rtol=2e-6)


def test_B48_a_prompt_in_chunks_attends_as_if_it_came_at_once() -> None:
    heads, kv_heads, dim, length = 4, 2, 8, 300
    random = torch.Generator().manual_seed(5)
    query = torch.randn(length, heads, dim, generator=random)
    key = torch.randn(length, kv_heads, dim, generator=random)
    value = torch.randn(length, kv_heads, dim, generator=random)
    outputs = []
    for chunk in (300, 128):
        step = make_step([0], [length], generator=torch.Generator().manual_seed(6))
        cache = torch.zeros(step.blocks, 16, kv_heads, 2 * dim)
        impl = PagedImpl(heads, dim, SCALE, kv_heads)
        output = torch.empty_like(query)
        for start in range(0, length, chunk):
            end = min(length, start + chunk)
            part = Step([start], [end - start], 16, step.blocks, step.table)
            impl.do_kv_cache_update(None, key[start:end], value[start:end], cache, part.common().slot_mapping)
            impl.forward(
                None,
                query[start:end],
                key[start:end],
                value[start:end],
                cache,
                build(part),
                output[start:end],
            )
        outputs.append(output)
    torch.testing.assert_close(outputs[0], outputs[1], atol=1e-6, rtol=1e-6)


def test_B60_a_block_of_the_manager_split_for_the_kernel_holds_the_same_tokens() -> None:
    """The manager deals 256-token blocks; the kernel reads the same memory as blocks of 128."""
    kv_heads, dim = 2, 8
    manager = make_step([300], [30], block_size=256, generator=torch.Generator().manual_seed(7))
    halves = torch.stack([2 * manager.table, 2 * manager.table + 1], -1).flatten(1)
    kernel = Step([300], [30], 128, 2 * manager.blocks, halves)
    torch.testing.assert_close(manager.slots(0, 0, 330), kernel.slots(0, 0, 330))
    memory = torch.zeros(manager.blocks * 256 * kv_heads * 2 * dim)
    random = torch.Generator().manual_seed(8)
    query = torch.randn(30, 4, dim, generator=random)
    rows = torch.randn(330, kv_heads, 2 * dim, generator=random)
    impl = PagedImpl(4, dim, SCALE, kv_heads)
    outputs = []
    for step in (manager, kernel):
        cache = memory.view(step.blocks, step.block_size, kv_heads, 2 * dim)
        key, value = rows.chunk(2, -1)
        impl.do_kv_cache_update(None, key, value, cache, step.slots(0, 0, 330))
        output = impl.forward(
            None, query, key[300:], value[300:], cache, build(step), torch.empty_like(query)
        )
        outputs.append(output)
    assert torch.equal(*outputs)


@pytest.mark.parametrize("page_padding", [1, 64])
def test_caches_with_padded_pages_are_read_and_written(page_padding: int) -> None:
    step = make_step([20, 0], [1, 18], generator=torch.Generator().manual_seed(9))
    output, wanted = run(step, page_padding=page_padding)
    torch.testing.assert_close(output.double(), wanted, atol=2e-6, rtol=2e-6)


@pytest.mark.parametrize("window", [None, 5])
def test_whatever_other_blocks_hold_never_reaches_an_output(window: int | None) -> None:
    step = make_step([20, 1, 7], [1, 1, 9], generator=torch.Generator().manual_seed(10))
    output, wanted = run(step, stale=float("nan"), sliding_window=window)
    torch.testing.assert_close(output.double(), wanted, atol=2e-6, rtol=2e-6)


def test_rows_that_pad_a_step_are_zero_and_write_no_slot() -> None:
    step = make_step([20, 0], [1, 5], generator=torch.Generator().manual_seed(11))
    output, wanted = run(step, padding=3)
    torch.testing.assert_close(output[:6].double(), wanted, atol=2e-6, rtol=2e-6)
    assert torch.equal(output[6:], torch.zeros_like(output[6:]))


def test_a_profile_run_without_metadata_gives_zeros() -> None:
    impl = PagedImpl(4, 8, SCALE, 2)
    output = torch.full((3, 4, 8), float("nan"))
    empty = torch.empty(0)
    impl.do_kv_cache_update(None, torch.ones(3, 2, 8), torch.ones(3, 2, 8), empty, torch.tensor([0, 1, 2]))
    impl.forward(None, output, None, None, empty, None, output)  # type: ignore[arg-type]
    assert torch.equal(output, torch.zeros(3, 4, 8))


def test_a_step_is_planned_once_for_all_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    planned = []
    monkeypatch.setattr(
        "vllm_fl.attention.paged.batches", lambda *a, **k: planned.append(a) or batching.batches(*a, **k)
    )
    step = make_step([20, 0], [1, 5], generator=torch.Generator().manual_seed(12))
    metadata = build(step)
    for window in (None, 8, None, 8, None):
        metadata.slots(window, 16)
    assert len(planned) == 2


def test_a_layer_reads_no_value_back_to_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the step is planned and the cache written. On a device a read waits for everything before it."""
    step = make_step([20, 0, 4], [1, 5, 1], generator=torch.Generator().manual_seed(13))
    impl = PagedImpl(4, 8, SCALE, 2, sliding_window=6)
    cache = torch.zeros(step.blocks, 16, 2, 16)
    query = torch.zeros(7, 4, 8)
    key = torch.zeros(7, 2, 8)
    metadata = build(step)
    metadata.slots(6, 16)
    impl.do_kv_cache_update(None, key, key, cache, step.common().slot_mapping)
    for name in ("item", "tolist", "cpu", "numpy", "__bool__", "__int__", "__float__"):
        monkeypatch.setattr(torch.Tensor, name, lambda *a: pytest.fail("a value was read back"))
    impl.forward(None, query, key, key, cache, metadata, query.clone())


def test_B4_the_backend_is_one_of_vllm_and_refuses_by_name_what_it_cannot_do() -> None:
    assert issubclass(ReferenceAttentionBackend, AttentionBackend)
    assert ReferenceAttentionBackend.get_required_kv_cache_layout() is None
    plain: dict[str, Any] = {
        "head_size": 80,
        "dtype": torch.float32,
        "kv_cache_dtype": "auto",
        "block_size": 16,
        "use_mla": False,
        "has_sink": True,
        "use_sparse": False,
        "use_mm_prefix": False,
        "use_per_head_quant_scales": False,
        "device_capability": None,
        "attn_type": AttentionType.DECODER,
        "has_sliding_window": True,
    }
    check = ReferenceAttentionBackend.validate_configuration
    assert check(**plain) == []
    refused = {
        "use_mla": (True, "MLA not supported"),
        "use_sparse": (True, "sparse not supported"),
        "use_mm_prefix": (True, "partial multimodal"),
        "kv_cache_dtype": ("fp8", "kv_cache_dtype not supported"),
        "block_size": (24, "block_size not supported"),
        "attn_type": (AttentionType.ENCODER_DECODER, "ENCODER_DECODER not supported"),
        "dtype": (torch.float64, "dtype not supported"),
    }
    for name, (value, reason) in refused.items():
        (found,) = check(**{**plain, name: value})
        assert reason in found


def test_a_quantized_cache_a_mixed_mask_and_a_quantized_output_are_refused() -> None:
    with pytest.raises(ValueError, match="--kv-cache-dtype fp8 is not supported"):
        PagedImpl(4, 8, SCALE, 2, kv_cache_dtype="fp8")
    step = make_step([0, 0], [2, 2], generator=torch.Generator())
    with pytest.raises(NotImplementedError, match="causal for some requests"):
        build(step, causal=torch.tensor([True, False]))
    output = torch.zeros(4, 4, 8)
    with pytest.raises(NotImplementedError, match="does not quantize its output"):
        PagedImpl(4, 8, SCALE, 2).forward(
            None, output, output, output, output, build(step), output, torch.ones(1)
        )


def test_values_of_another_size_than_keys_are_refused_before_the_cache_exists() -> None:
    from vllm.v1.kv_cache_interface import FullAttentionSpec

    spec = FullAttentionSpec(block_size=16, num_kv_heads=2, head_size=24, head_size_v=16, dtype=torch.float32)
    with pytest.raises(ValueError, match="values of size 16 beside keys of size 24"):
        ReferenceAttentionBackend.customize_spec(spec)


def test_B13_the_backend_writes_the_cache_before_it_attends_not_within() -> None:
    """vLLM calls the update only if the backend says that ``forward`` leaves it out, and so it must."""
    assert ReferenceAttentionBackend.forward_includes_kv_cache_update is False
    step = make_step([0], [4], generator=torch.Generator())
    cache = torch.zeros(step.blocks, 16, 2, 16)
    rows = torch.ones(4, 2, 8)
    PagedImpl(4, 8, SCALE, 2).forward(
        None, torch.ones(4, 4, 8), rows, rows, cache, build(step), torch.empty(4, 4, 8)
    )
    assert not cache.any()
