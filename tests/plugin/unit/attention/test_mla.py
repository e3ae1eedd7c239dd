"""Latent attention. Rung 1: against attention over projected keys and values, in fp64."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from vllm.v1.attention.backend import AttentionBackend, AttentionType
from vllm_fl.attention.mla import InlinePrefill, LatentImpl, LatentMetadataBuilder, ReferenceMLABackend

from tests.plugin.unit.attention.cases import Step, dense_attention, make_step

HEADS, LATENT, PLAIN, ROTATED, VALUES = 3, 12, 8, 4, 6
SCALE = 0.27


class Projection:
    """Keys and values of all heads from a compressed vector, as vLLM's ``kv_b_proj`` gives them."""

    def __init__(self, generator: torch.Generator) -> None:
        self.weight = torch.randn(LATENT, HEADS * (PLAIN + VALUES), generator=generator) * 0.3

    def __call__(self, latent: torch.Tensor) -> tuple[torch.Tensor, None]:
        return latent @ self.weight.to(latent.dtype), None


@pytest.fixture
def make_impl(vllm_config: object) -> Any:
    def make(projection: Projection | None = None, **options: Any) -> LatentImpl:
        arguments: dict[str, Any] = {
            "num_heads": HEADS,
            "head_size": LATENT + ROTATED,
            "scale": SCALE,
            "num_kv_heads": 1,
            "alibi_slopes": None,
            "sliding_window": None,
            "kv_cache_dtype": "auto",
            "logits_soft_cap": None,
            "attn_type": AttentionType.DECODER,
            "kv_sharing_target_layer_name": None,
            "q_lora_rank": None,
            "kv_lora_rank": LATENT,
            "qk_nope_head_dim": PLAIN,
            "qk_rope_head_dim": ROTATED,
            "qk_head_dim": PLAIN + ROTATED,
            "v_head_dim": VALUES,
            "kv_b_proj": projection,
        }
        return LatentImpl(**{**arguments, **options})

    return make


def build(step: Step, **common: Any) -> Any:
    builder = LatentMetadataBuilder(None, [], None, torch.device("cpu"))  # type: ignore[arg-type]
    return builder.build(0, step.common(**common))


def run(
    step: Step, make_impl: Any, *, dtype: torch.dtype = torch.float32, padding: int = 0, **options: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """As vLLM's layer drives it: decodes in the space of the cache, then projected; prompts directly."""
    random = torch.Generator().manual_seed(1)
    projection = Projection(random)
    impl = make_impl(projection, **options)
    cache = torch.full((step.blocks, step.block_size, LATENT + ROTATED), float("nan"), dtype=dtype)
    rows = [torch.randn(n, LATENT + ROTATED, generator=random).to(dtype) for n in step.lengths]

    def write(latent: torch.Tensor, rotated: torch.Tensor, slots: torch.Tensor) -> None:
        impl.do_kv_cache_update(latent, rotated[:, None], cache, slots, "auto", torch.ones(()))

    for request, cached in enumerate(step.cached):
        write(*rows[request][:cached].split([LATENT, ROTATED], -1), step.slots(request, 0, cached))
    pad = torch.zeros(padding, LATENT + ROTATED, dtype=dtype)
    new = torch.cat([*(r[c:] for r, c in zip(rows, step.cached, strict=True)), pad])
    common = step.common(padding=padding)
    write(*new.split([LATENT, ROTATED], -1), common.slot_mapping)
    query = torch.randn(new.shape[0], HEADS, PLAIN + ROTATED, generator=random).to(dtype)

    metadata = build(step, padding=padding)
    decodes = metadata.num_decode_tokens
    output = torch.full((query.shape[0], HEADS * VALUES), float("nan"), dtype=dtype)
    keys, values = projection.weight.to(dtype).view(LATENT, HEADS, -1).split([PLAIN, VALUES], -1)
    if decodes:
        plain, rotated = query[:decodes].split([PLAIN, ROTATED], -1)
        absorbed = torch.einsum("thp,lhp->thl", plain, keys)
        latent, nothing = impl.forward_mqa((absorbed, rotated), cache, metadata, None)
        assert nothing is None
        output[:decodes] = torch.einsum("thl,lhv->thv", latent, values).flatten(1)
    if decodes < query.shape[0]:
        latent, rotated = new[decodes:].split([LATENT, ROTATED], -1)
        impl.forward_mha(
            query[decodes:],
            latent,
            rotated[:, None],
            cache,
            metadata,
            torch.ones(()),
            output[decodes:],
        )
    wanted = []
    start = 0
    for request, count in enumerate(step.new):
        latent, rotated = rows[request].double().split([LATENT, ROTATED], -1)
        projected = (latent @ projection.weight.double()).view(-1, HEADS, PLAIN + VALUES)
        plain, value = projected.split([PLAIN, VALUES], -1)
        key = torch.cat([plain, rotated[:, None].expand(-1, HEADS, -1)], -1)
        part = query[start : start + count]
        window = options.get("sliding_window")
        wanted.append(dense_attention(part, key, value, SCALE, window=window).flatten(1))
        start += count
    return output, torch.cat(wanted)


STEPS = [
    ([0], [1]),
    ([0, 0], [5, 17]),
    ([3, 40, 15], [1, 1, 1]),
    ([12, 33, 0, 20], [1, 1, 19, 7]),  # decodes, a prompt, a later chunk
    ([0, 9], [4, 1]),  # a decode the runner has not moved to the front
]


@pytest.mark.parametrize(("cached", "new"), STEPS)
@pytest.mark.parametrize("window", [None, 6])
def test_prompts_and_decodes_equal_attention_over_projected_keys(
    cached: list[int], new: list[int], window: int | None, make_impl: Any
) -> None:
    step = make_step(cached, new, generator=torch.Generator().manual_seed(2))
    output, wanted = run(step, make_impl, sliding_window=window)
    torch.testing.assert_close(output.double(), wanted, atol=5e-6, rtol=1e-5)


def test_half_precision(make_impl: Any) -> None:
    step = make_step([12, 0], [1, 19], generator=torch.Generator().manual_seed(3))
    output, wanted = run(step, make_impl, dtype=torch.bfloat16)
    torch.testing.assert_close(output.double(), wanted, atol=6e-2, rtol=3e-2)


def test_rows_that_pad_a_step_are_zero(make_impl: Any) -> None:
    step = make_step([12, 4], [1, 1], generator=torch.Generator().manual_seed(4))
    output, wanted = run(step, make_impl, padding=2)
    torch.testing.assert_close(output[:2].double(), wanted, atol=5e-6, rtol=1e-5)
    assert torch.equal(output[2:], torch.zeros(2, HEADS * VALUES))


def test_the_counts_vllm_splits_rows_by() -> None:
    step = make_step([12, 33, 0, 20, 8], [1, 0, 19, 7, 1], generator=torch.Generator().manual_seed(5))
    found = build(step)
    assert (found.num_decodes, found.num_decode_tokens, found.num_prefills) == (2, 1, 3)
    assert found.num_actual_tokens == 28
    assert found.prefill.query_starts == [0, 19, 26, 27]
    assert found.prefill.lengths == [19, 27, 9]


def test_B4_the_backend_is_one_of_vllm_and_refuses_what_it_cannot_do(make_impl: Any) -> None:
    assert issubclass(ReferenceMLABackend, AttentionBackend)
    assert ReferenceMLABackend.get_required_kv_cache_layout() is None
    assert ReferenceMLABackend.get_kv_cache_shape(7, 16, 1, 48) == (7, 16, 48)
    plain: dict[str, Any] = {
        "head_size": LATENT + ROTATED,
        "dtype": torch.float32,
        "kv_cache_dtype": "auto",
        "block_size": 16,
        "use_mla": True,
        "has_sink": False,
        "use_sparse": False,
        "use_mm_prefix": False,
        "use_per_head_quant_scales": False,
        "device_capability": None,
        "attn_type": AttentionType.DECODER,
    }
    check = ReferenceMLABackend.validate_configuration
    assert check(**plain) == []
    assert check(**{**plain, "use_mla": False}) == ["non-MLA not supported"]
    assert check(**{**plain, "use_sparse": True}) == ["sparse not supported"]
    assert check(**{**plain, "kv_cache_dtype": "fp8"}) == ["kv_cache_dtype not supported"]
    with pytest.raises(ValueError, match="--kv-cache-dtype fp8"):
        make_impl(kv_cache_dtype="fp8")
    step = make_step([0], [3], generator=torch.Generator())
    with pytest.raises(NotImplementedError, match="not causal"):
        build(step, causal=False)


def test_the_prompt_backend_stands_for_the_layer_itself() -> None:
    config = SimpleNamespace(dtype=torch.float32)
    assert InlinePrefill.validate_configuration(None, config) == []  # type: ignore[arg-type]
    config = SimpleNamespace(dtype=torch.int8)
    assert "int8" in InlinePrefill.validate_configuration(None, config)[0]  # type: ignore[arg-type]
    made = InlinePrefill(HEADS, SCALE, LATENT, PLAIN, ROTATED, VALUES, None)  # type: ignore[arg-type]
    for call in (made.run_prefill_new_tokens, made.clone().run_prefill_context_chunk):
        with pytest.raises(NotImplementedError, match="LatentImpl attends"):
            call()
