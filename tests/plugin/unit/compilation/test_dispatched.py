"""What FlagGems leads is what vLLM's compiled model calls. No rung: configuration only."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from vllm_fl.compilation.dispatched import OPERATORS, enable_custom_ops, led_by_flaggems, prefer_norms
from vllm_fl.dispatch.backends import flaggems


@pytest.fixture(autouse=True)
def _nvidia(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_FL_PLATFORM", "nvidia")
    monkeypatch.setattr(flaggems, "find_spec", lambda name: object())
    monkeypatch.setenv("VLLM_FL_FLAGOS_WHITELIST", "silu_and_mul,gelu_and_mul,apply_rotary_pos_emb,rms_norm")
    monkeypatch.setenv("VLLM_FL_PER_OP", "silu_and_mul=flagos;rotary_embedding=flagos;gelu_and_mul=flagos")


def compiled(*custom_ops: str) -> list[str]:
    config = SimpleNamespace(compilation_config=SimpleNamespace(custom_ops=list(custom_ops)))
    enable_custom_ops(config)
    return config.compilation_config.custom_ops


def test_operators_that_flaggems_leads_are_called_by_compiled_models() -> None:
    assert compiled("none") == ["none", "+gelu_and_mul", "+rotary_embedding", "+silu_and_mul"]


def test_what_the_user_says_about_an_operator_wins() -> None:
    assert "+silu_and_mul" not in compiled("-silu_and_mul")
    assert compiled("+silu_and_mul").count("+silu_and_mul") == 1


@pytest.mark.parametrize(
    ("variables", "left"),
    [
        ({"VLLM_FL_PREFER": "vendor"}, set()),
        ({"USE_FLAGGEMS": "0"}, set()),
        ({"VLLM_FL_PER_OP": "silu_and_mul=vendor|flagos;rms_norm=vendor"}, {"silu_and_mul", "rms_norm"}),
        ({"VLLM_FL_FLAGOS_WHITELIST": "silu_and_mul"}, {"silu_and_mul"}),
        ({"VLLM_FL_OOT_BLACKLIST": "rotary_embedding"}, {"silu_and_mul", "gelu_and_mul"}),
    ],
)
def test_policy_lists_and_switches_say_what_flaggems_leads(
    variables: dict[str, str], left: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    led = led_by_flaggems()
    assert led <= set(OPERATORS)
    if "VLLM_FL_PER_OP" in variables:
        assert not led & left
    else:
        assert led & {"silu_and_mul", "gelu_and_mul", "rotary_embedding"} == left


@pytest.mark.parametrize(("order", "first"), [("flagos", "fl"), ("vendor", "native")])
def test_norms_follow_the_policy_too(order: str, first: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_FL_FLAGOS_WHITELIST", "rms_norm,fused_add_rms_norm")
    monkeypatch.setenv("VLLM_FL_PER_OP", f"rms_norm={order}")
    priority = prefer_norms(SimpleNamespace(rms_norm=["native"], fused_add_rms_norm=["native"]))
    assert priority.rms_norm[0] == priority.fused_add_rms_norm[0] == first
    assert priority.rms_norm[-1] == "native"
