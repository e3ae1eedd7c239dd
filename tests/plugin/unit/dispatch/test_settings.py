"""Which source decides: policy file, environment, device, built-in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from vllm_fl import envs
from vllm_fl.dispatch import settings as settings_module
from vllm_fl.dispatch.config import PolicyFile
from vllm_fl.dispatch.settings import Settings, load_settings, merge

SHIPPED = PolicyFile(
    prefer="vendor",
    strict=True,
    allow_vendors=("a",),
    deny_vendors=("b",),
    op_backends=(("rms_norm", ("vendor",)), ("moe_sum", ("vendor",))),
    flagos_blacklist=("mm", "add"),
    flaggems_version="5.0.2",
    oot_blacklist=("fused_moe",),
)


@pytest.fixture
def shipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings_module, "platform_policy", lambda device: SHIPPED)


def settled(device: str = "ascend", **variables: str) -> Settings:
    return merge(envs.read(variables), device)


PRECEDENCE: list[tuple[str, str, str, Any, Any, Any, Any]] = [
    # variable, its value, field, from environment, from the device's policy, from VLLM_FL_CONFIG, built in
    ("VLLM_FL_PREFER", "reference", "prefer", "reference", "vendor", "flagos", None),
    ("VLLM_FL_STRICT", "0", "strict", False, True, False, None),
    ("VLLM_FL_ALLOW_VENDORS", "x", "allow_vendors", ("x",), ("a",), ("c",), None),
    ("VLLM_FL_DENY_VENDORS", "x", "deny_vendors", ("x",), ("b",), ("c",), None),
    (
        "VLLM_FL_PER_OP",
        "rms_norm=flagos",
        "per_op",
        (("rms_norm", ("flagos",)),),
        SHIPPED.op_backends,
        (("moe_sum", ("impl:x",)),),
        None,
    ),
    ("VLLM_FL_FLAGOS_BLACKLIST", "cos", "flagos_blacklist", ("cos",), ("mm", "add"), ("sin",), None),
    (
        "VLLM_FL_OOT_BLACKLIST",
        "rms_norm",
        "oot_blacklist",
        ("rms_norm",),
        ("fused_moe",),
        ("rotary_embedding",),
        None,
    ),
]


@pytest.mark.parametrize(("variable", "value", "field", "env", "device", "file", "built_in"), PRECEDENCE)
def test_precedence(
    variable: str,
    value: str,
    field: str,
    env: Any,
    device: Any,
    file: Any,
    built_in: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = tmp_path / "own.yaml"
    own.write_text(
        "{prefer: flagos, strict: false, allow_vendors: [c], deny_vendors: [c], "
        "op_backends: {moe_sum: 'impl:x'}, flagos_blacklist: [sin], oot_blacklist: [rotary_embedding]}"
    )

    def result(**variables: str) -> Any:
        return getattr(settled(**variables).environment, field)

    monkeypatch.setattr(settings_module, "platform_policy", lambda _: PolicyFile())
    assert result() == built_in
    monkeypatch.setattr(settings_module, "platform_policy", lambda _: SHIPPED)
    assert result() == device
    assert result(**{variable: value}) == env
    assert result(**{variable: value, "VLLM_FL_CONFIG": str(own)}) == file


@pytest.mark.usefixtures("shipped")
def test_a_policy_file_replaces_everything_and_says_what_it_ignores(
    tmp_path: Path, caplog_vllm: pytest.LogCaptureFixture
) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("prefer: flagos")
    found = settled(
        VLLM_FL_CONFIG=str(own), VLLM_FL_STRICT="1", VLLM_FL_FLAGOS_BLACKLIST_APPEND="cos", USE_FLAGGEMS="0"
    )
    assert found.environment.strict is None
    assert found.environment.flagos_blacklist is None
    assert not found.environment.use_flaggems
    assert "ignored: VLLM_FL_STRICT, VLLM_FL_FLAGOS_BLACKLIST_APPEND" in caplog_vllm.text
    assert "the 2 functions that fail on device 'ascend' are in use" in caplog_vllm.text


def test_a_bad_policy_file_is_refused(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("strict: 'false'")
    with pytest.raises(ValueError, match=r"own\.yaml: strict must be true or false"):
        settled(VLLM_FL_CONFIG=str(own))


@pytest.mark.usefixtures("shipped")
def test_flaggems_lists() -> None:
    def lists(**variables: str) -> tuple[Any, Any]:
        env = settled(**variables).environment
        return env.flagos_whitelist, env.flagos_blacklist

    assert lists() == (None, ("mm", "add"))
    assert lists(VLLM_FL_FLAGOS_BLACKLIST="cos") == (None, ("cos",))
    assert lists(VLLM_FL_FLAGOS_BLACKLIST_APPEND="cos,mm,sin") == (None, ("mm", "add", "cos", "sin"))
    assert lists(VLLM_FL_FLAGOS_BLACKLIST="cos", VLLM_FL_FLAGOS_BLACKLIST_APPEND="sin,cos") == (
        None,
        ("cos", "sin"),
    )
    assert lists(VLLM_FL_FLAGOS_WHITELIST="mm") == (("mm",), None)
    assert lists(VLLM_FL_FLAGOS_WHITELIST="mm", VLLM_FL_FLAGOS_BLACKLIST_APPEND="mm") == (("mm",), None)


@pytest.mark.usefixtures("shipped")
def test_the_pinned_release_goes_with_the_shipped_list_only() -> None:
    assert settled().flaggems_version == "5.0.2"
    assert settled(VLLM_FL_FLAGOS_BLACKLIST_APPEND="x").flaggems_version == "5.0.2"
    assert settled(VLLM_FL_FLAGOS_BLACKLIST="x").flaggems_version is None


@pytest.mark.parametrize(
    ("variables", "on"),
    [
        ({}, True),
        ({"VLLM_FL_PREFER": "flagos"}, True),
        ({"VLLM_FL_PREFER": "vendor"}, False),
        ({"VLLM_FL_PREFER": "reference"}, False),
        ({"USE_FLAGGEMS": "0"}, False),
        ({"VLLM_FL_PREFER_ENABLED": "false"}, False),
    ],
)
def test_B31_switches_turn_flaggems_off_for_dispatched_operators_too(
    variables: dict[str, str], on: bool
) -> None:
    found = settled(device="nvidia", **variables)
    assert found.flaggems is on
    assert found.flaggems_allows("rms_norm") is on


def test_lists_hold_for_dispatched_operators_too() -> None:
    assert not settled().flaggems_allows("silu_and_mul")
    assert settled().flaggems_allows("gelu_and_mul")
    only = settled(VLLM_FL_FLAGOS_WHITELIST="rms_norm")
    assert only.flaggems_allows("rms_norm")
    assert not only.flaggems_allows("rms_norm", "fused_add_rms_norm")


def test_backends_by_operator_come_from_the_json_file_before_the_variable(tmp_path: Path) -> None:
    path = tmp_path / "ops.json"
    path.write_text('{"rms_norm": "reference"}')
    policy = settled(
        device="cpu", VLLM_FL_OP_CONFIG=str(path), VLLM_FL_PER_OP="rms_norm=vendor;moe_sum=vendor|flagos"
    ).policy
    assert dict(policy.per_op) == {"rms_norm": ("reference",), "moe_sum": ("vendor", "flagos")}


@pytest.mark.usefixtures("shipped")
def test_a_json_file_also_replaces_the_orders_of_the_device(tmp_path: Path) -> None:
    path = tmp_path / "ops.json"
    path.write_text('{"rms_norm": "reference"}')
    assert dict(settled(VLLM_FL_OP_CONFIG=str(path)).policy.per_op) == {"rms_norm": ("reference",)}


def test_device_names_are_accepted_for_vendors() -> None:
    assert settled(VLLM_FL_ALLOW_VENDORS="nvidia,acme").policy.allow_vendors == {"cuda", "acme"}


def test_hopper_keeps_matrix_products_native(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings_module, "_is_hopper", lambda: True)
    on = {"VLLM_FL_HOPPER_LONG_CONTEXT_OPT": "1"}
    shipped = settled(device="nvidia").environment.flagos_blacklist
    assert "mm_out" not in shipped
    assert set(settled(device="nvidia", **on).environment.flagos_blacklist) == {*shipped, "mm", "mm_out"}
    assert settled(device="cpu", **on).environment.flagos_blacklist is None
    monkeypatch.setattr(settings_module, "_is_hopper", lambda: False)
    assert settled(device="nvidia", **on).environment.flagos_blacklist == shipped


def test_attention_of_flaggems_is_refused_as_long_as_there_is_none() -> None:
    with pytest.raises(ValueError, match="VLLM_FL_USE_FLAGGEMS_ATTN=1: no FlagGems attention is built in"):
        settled(VLLM_FL_USE_FLAGGEMS_ATTN="1")


def test_recording_is_configured_by_the_file_before_the_environment(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("io_dump: {dir: /from/file, max_calls: 3}")
    env = settled(
        VLLM_FL_CONFIG=str(own),
        VLLM_FL_IO_DUMP="/from/env",
        VLLM_FL_IO_DUMP_OPS="mm",
        VLLM_FL_IO_DUMP_MAX_CALLS="9",
    ).environment
    assert (env.io_dump, env.io_dump_max_calls, env.io_dump_ops) == ("/from/file", 3, ("mm",))


def test_settings_follow_the_device_that_the_plugin_would_choose() -> None:
    found = load_settings({"VLLM_FL_PLATFORM": "cuda"})
    assert (found.device, found.vendor) == ("nvidia", "cuda")
    found = load_settings({"VLLM_FL_PLATFORM": "cpu"})
    assert (found.device, found.vendor, found.policy.prefer) == ("cpu", None, "reference")
