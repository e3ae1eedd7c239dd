"""Which layers are replaced, where and how often."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from vllm.model_executor import custom_op
from vllm_fl import envs
from vllm_fl.ops import DISPATCHED, OUT_OF_TREE, register_layers

REPLACED = {layer.replaced for layer in DISPATCHED + OUT_OF_TREE}

Register = Callable[..., dict[str, type]]


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch) -> Register:
    """Register under these variables, from nothing; returns what vLLM's registry then holds."""
    monkeypatch.setattr(custom_op, "op_registry_oot", {})

    def run(times: int = 1, **variables: str) -> dict[str, type]:
        for _ in range(times):
            register_layers(envs.read(variables))
        return custom_op.op_registry_oot

    return run


def test_B55_every_layer_is_replaced_once_however_often_it_is_asked_for(register: Register) -> None:
    found = register(times=3)
    assert set(found) == REPLACED
    for layer in DISPATCHED + OUT_OF_TREE:
        cls = found[layer.replaced]
        assert f"{cls.__module__}.{cls.__name__}" == layer.ours
        assert layer.replaced in [base.__name__ for base in cls.__mro__[1:]]


@pytest.mark.parametrize(
    ("variables", "left"),
    [
        ({"VLLM_FL_OOT_ENABLED": "0"}, {"QwenGatedDeltaNetAttention"}),
        ({"VLLM_FL_PREFER_ENABLED": "0"}, {"QwenGatedDeltaNetAttention"}),
        ({"VLLM_FL_OOT_WHITELIST": "silu_and_mul"}, {"SiluAndMul", "QwenGatedDeltaNetAttention"}),
        ({"VLLM_FL_OOT_BLACKLIST": "silu_and_mul,gelu_and_mul"}, REPLACED - {"SiluAndMul", "GeluAndMul"}),
        (
            {"VLLM_FL_OOT_WHITELIST": "gelu_and_mul", "VLLM_FL_OOT_BLACKLIST": "gelu_and_mul"},
            {"GeluAndMul", "QwenGatedDeltaNetAttention"},
        ),
        (
            {"VLLM_FL_OOT_BLACKLIST": "unquantized_fused_moe_method"},
            REPLACED - {"UnquantizedFusedMoEMethod"},
        ),
        (
            {"VLLM_FL_OOT_BLACKLIST": "rotary_embedding"},
            {name for name in REPLACED if not name.endswith("RotaryEmbedding")},
        ),
    ],
)
def test_switches_and_lists_say_what_is_replaced(
    variables: dict[str, str], left: set[str], register: Register
) -> None:
    assert set(register(**variables)) == left


@pytest.mark.parametrize(("variables", "defined"), [({}, 1), ({"VLLM_FL_OOT_BLACKLIST": "fused_moe"}, 0)])
def test_the_switch_of_fused_moe_stands_for_the_routing_operators(
    variables: dict[str, str], defined: int, register: Register, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    monkeypatch.setattr("vllm_fl.ops.clib.define_missing_operators", lambda: calls.append(1))
    register(**variables)
    assert len(calls) == defined


def test_a_class_another_plugin_has_replaced_is_refused(register: Register) -> None:
    custom_op.op_registry_oot["SiluAndMul"] = int
    with pytest.raises(ValueError, match=r"SiluAndMul is replaced by builtins\.int already.* VLLM_PLUGINS"):
        register()


@pytest.mark.parametrize("led", [set(), {"silu_and_mul"}, {"silu_and_mul", "rotary_embedding"}])
def test_on_a_device_of_vllm_only_flaggems_is_a_reason(
    led: set[str], register: Register, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vllm.platforms import current_platform
    from vllm_fl.compilation import dispatched

    monkeypatch.setattr(type(current_platform), "is_out_of_tree", lambda self: False)
    monkeypatch.setattr(dispatched, "led_by_flaggems", lambda: frozenset(led))
    assert set(register()) == {layer.replaced for layer in DISPATCHED if layer.switch in led}


def test_the_prompt_backend_of_latent_attention_is_ours(register: Register) -> None:
    from vllm.v1.attention.backends.mla.prefill.registry import MLAPrefillBackendEnum
    from vllm_fl.attention.mla import InlinePrefill

    register()
    assert MLAPrefillBackendEnum.FLASH_ATTN.get_class() is InlinePrefill
