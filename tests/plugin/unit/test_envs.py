"""The environment table: what each variable accepts, and how bad values are refused."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import pytest
from vllm_fl import envs

FLAGS = {
    "VLLM_FL_PREFER_ENABLED": True,
    "USE_FLAGGEMS": True,
    "VLLM_FL_STRICT": None,
    "VLLM_FL_OOT_ENABLED": True,
    "VLLM_FL_USE_FLAGGEMS_ATTN": False,
    "VLLM_FL_HOPPER_LONG_CONTEXT_OPT": False,
    "VLLM_FL_DISPATCH_DEBUG": False,
    "VLLM_FL_ALLOW_VERSION_MISMATCH": False,
    "VLLM_FL_IO_DUMP_WITH_PRINT": False,
    "VLLM_FL_IO_DUMP_WITH_TORCH_FUNCS": True,
    "VLLM_FL_IO_DUMP_WITH_METAS": True,
    "VLLM_FL_IO_DUMP_WITH_VALUES": False,
}
NAME_LISTS = {
    "VLLM_FL_ALLOW_VENDORS": None,
    "VLLM_FL_DENY_VENDORS": None,
    "VLLM_FL_FLAGOS_WHITELIST": None,
    "VLLM_FL_FLAGOS_BLACKLIST": None,
    "VLLM_FL_FLAGOS_BLACKLIST_APPEND": (),
    "VLLM_FL_PLUGIN_MODULES": (),
    "VLLM_FL_IO_DUMP_OPS": (),
    "VLLM_FL_IO_DUMP_MODULES": (),
    "VLLM_FL_IO_DUMP_LAYERS": (),
}
TEXTS = [
    "VLLM_FL_PLATFORM",
    "VLLM_FL_VISIBLE_DEVICES",
    "FLAGGEMS_ENABLE_OPLIST_PATH",
    "GEMS_VENDOR",
    "FLAGCX_PATH",
    "FLAGOS_DEVICE_CONTROL_ENV_VAR",
]


def value(variable: str, text: str) -> Any:
    return getattr(envs.read({variable: text}), envs.VARIABLES[variable])


@pytest.mark.parametrize(("variable", "default"), FLAGS.items())
def test_switches_accept_four_spellings_and_refuse_the_rest(variable: str, default: bool | None) -> None:
    assert [value(variable, text) for text in ("1", "true", "TRUE", "0", "false")] == [
        True,
        True,
        True,
        False,
        False,
    ]
    assert value(variable, "") is default
    for wrong in ("yes", "on", "2", "-1"):
        with pytest.raises(ValueError, match=f"{variable}='{wrong}' .*accepted: true, false, 1, 0"):
            value(variable, wrong)


@pytest.mark.parametrize(("variable", "default"), NAME_LISTS.items())
def test_lists_keep_their_order_and_drop_duplicates(variable: str, default: tuple[str, ...] | None) -> None:
    assert value(variable, " b, a ,,b") == ("b", "a")
    assert value(variable, "  ") == default


@pytest.mark.parametrize("variable", TEXTS)
def test_texts_are_stripped_and_empty_means_unset(variable: str) -> None:
    assert value(variable, " x ") == "x"
    assert value(variable, "") is None


def test_every_variable_is_covered_by_a_test_here() -> None:
    own = {
        "VLLM_FL_PREFER",
        "VLLM_FL_PER_OP",
        "VLLM_FL_CONFIG",
        "VLLM_FL_OP_CONFIG",
        "VLLM_FL_OOT_WHITELIST",
        "VLLM_FL_OOT_BLACKLIST",
        "VLLM_FL_LOG_LEVEL",
        "VLLM_FL_INT8_MODE",
        "VLLM_FL_IO_DUMP",
        "VLLM_FL_IO_DUMP_MAX_CALLS",
        "VLLM_FL_IO_DUMP_STEP_RANGE",
        "VLLM_FL_IO_DUMP_RANK",
        "VLLM_FL_IO_DUMP_BG_WORKERS",
    }
    assert own | FLAGS.keys() | NAME_LISTS.keys() | set(TEXTS) == envs.VARIABLES.keys()


def test_nothing_set_gives_the_defaults() -> None:
    assert envs.read({}) == envs.Environment()


def test_preferred_backend_is_one_of_three() -> None:
    spellings = ("flagos", "Vendor", "reference")
    assert tuple(value("VLLM_FL_PREFER", text) for text in spellings) == envs.BACKENDS
    with pytest.raises(ValueError, match=r"VLLM_FL_PREFER='gems'.*flagos, vendor, reference"):
        value("VLLM_FL_PREFER", "gems")


def test_int8_mode_is_one_of_three() -> None:
    assert [value("VLLM_FL_INT8_MODE", text) for text in ("", "w8a8", "W8A16")] == ["auto", "w8a8", "w8a16"]
    with pytest.raises(ValueError, match="VLLM_FL_INT8_MODE='int8'"):
        value("VLLM_FL_INT8_MODE", "int8")


def test_order_per_operator() -> None:
    assert value("VLLM_FL_PER_OP", "rms_norm=vendor | reference; silu_and_mul=impl:x.y;") == (
        ("rms_norm", ("vendor", "reference")),
        ("silu_and_mul", ("impl:x.y",)),
    )


@pytest.mark.parametrize("segment", ["rms_norm", "rms_norm=", "=vendor", "rms_norm=vendor||reference"])
def test_a_malformed_order_is_refused_and_quoted(segment: str) -> None:
    with pytest.raises(ValueError, match="VLLM_FL_PER_OP") as caught:
        value("VLLM_FL_PER_OP", f"silu_and_mul=vendor;{segment}")
    assert repr(segment) in str(caught.value)


def test_an_absent_policy_file_is_refused(tmp_path: Path) -> None:
    present = tmp_path / "policy.yaml"
    with pytest.raises(FileNotFoundError, match="VLLM_FL_CONFIG"):
        value("VLLM_FL_CONFIG", str(present))
    present.write_text("prefer: vendor")
    assert value("VLLM_FL_CONFIG", str(present)) == str(present)


def test_backends_chosen_in_a_json_file(tmp_path: Path) -> None:
    path = tmp_path / "ops.json"
    path.write_text(json.dumps({"rms_norm": "vendor", "silu_and_mul": "reference"}))
    assert value("VLLM_FL_OP_CONFIG", str(path)) == (
        ("rms_norm", ("vendor",)),
        ("silu_and_mul", ("reference",)),
    )


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('["rms_norm"]', "must hold one object"),
        ('{"rms_norm": 1}', "must hold one object"),
        ('{"rms_norm": "triton"}', "Unsupported backend 'triton' for 'rms_norm'"),
        ("{", "is not JSON"),
        (None, "file not found"),
    ],
)
def test_a_bad_json_file_is_refused(text: str | None, complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "ops.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ValueError, match=f"VLLM_FL_OP_CONFIG.*{complaint}"):
        value("VLLM_FL_OP_CONFIG", str(path))


@pytest.mark.parametrize("variable", ["VLLM_FL_OOT_WHITELIST", "VLLM_FL_OOT_BLACKLIST"])
def test_layer_lists_refuse_unknown_layers(variable: str) -> None:
    assert value(variable, "rms_norm,fused_moe") == ("rms_norm", "fused_moe")
    assert value(variable, "") is None
    with pytest.raises(ValueError, match=rf"{variable} names unknown layers layernorm; accepted: .*rms_norm"):
        value(variable, "rms_norm,layernorm")


def test_layers_are_chosen_by_whitelist_then_blacklist() -> None:
    def enabled(**variables: str) -> list[str]:
        environment = envs.read(variables)
        return [layer for layer in envs.OOT_OPS if environment.oot_layer_enabled(layer)]

    everything = list(envs.OOT_OPS)
    assert enabled() == everything
    assert enabled(VLLM_FL_OOT_WHITELIST="rms_norm", VLLM_FL_OOT_BLACKLIST="rms_norm") == ["rms_norm"]
    assert enabled(VLLM_FL_OOT_BLACKLIST="rms_norm") == [op for op in everything if op != "rms_norm"]
    assert enabled(VLLM_FL_OOT_ENABLED="0") == []
    assert enabled(VLLM_FL_PREFER_ENABLED="0", VLLM_FL_OOT_WHITELIST="rms_norm") == []


def test_both_flaggems_lists_at_once_are_refused() -> None:
    both = {"VLLM_FL_FLAGOS_WHITELIST": "mm", "VLLM_FL_FLAGOS_BLACKLIST": "add"}
    with pytest.raises(ValueError, match="WHITELIST and VLLM_FL_FLAGOS_BLACKLIST exclude each other"):
        envs.read(both)


def test_an_invalid_log_level_becomes_info(caplog_vllm: pytest.LogCaptureFixture) -> None:
    assert value("VLLM_FL_LOG_LEVEL", "debug") == "DEBUG"
    assert value("VLLM_FL_LOG_LEVEL", "loud") == "INFO"
    assert "VLLM_FL_LOG_LEVEL='loud'" in caplog_vllm.text


def test_dump_folder_may_be_given_by_a_switch() -> None:
    assert [value("VLLM_FL_IO_DUMP", text) for text in ("1", "0", "false", "/data/x", "")] == [
        "io_dump",
        None,
        None,
        "/data/x",
        None,
    ]


def test_dump_steps_include_both_ends_and_a_malformed_range_is_ignored(
    caplog_vllm: pytest.LogCaptureFixture,
) -> None:
    assert value("VLLM_FL_IO_DUMP_STEP_RANGE", "3 - 7") == (3, 7)
    assert value("VLLM_FL_IO_DUMP_STEP_RANGE", "4-4") == (4, 4)
    for wrong in ("7-3", "3", "a-b", "-3", "1-2-3"):
        caplog_vllm.clear()
        assert value("VLLM_FL_IO_DUMP_STEP_RANGE", wrong) is None
        assert f"VLLM_FL_IO_DUMP_STEP_RANGE={wrong!r} is ignored" in caplog_vllm.text


def test_dump_ranks_and_a_malformed_list_is_ignored(caplog_vllm: pytest.LogCaptureFixture) -> None:
    assert value("VLLM_FL_IO_DUMP_RANK", "all") is None
    assert value("VLLM_FL_IO_DUMP_RANK", "0,2") == (0, 2)
    assert not caplog_vllm.records
    assert value("VLLM_FL_IO_DUMP_RANK", "0,x") is None
    assert "VLLM_FL_IO_DUMP_RANK='0,x' is ignored" in caplog_vllm.text


@pytest.mark.parametrize(
    ("variable", "default"), [("VLLM_FL_IO_DUMP_MAX_CALLS", 0), ("VLLM_FL_IO_DUMP_BG_WORKERS", 8)]
)
def test_counts_are_whole_numbers(variable: str, default: int) -> None:
    assert value(variable, "12") == 12
    assert value(variable, "") == default
    for wrong in ("-1", "1.5", "many"):
        with pytest.raises(ValueError, match=f"{variable}='{wrong}'"):
            value(variable, wrong)


def test_reading_takes_the_process_environment_anew_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_FL_PREFER", "vendor")
    assert envs.read().prefer == "vendor"
    monkeypatch.setenv("VLLM_FL_PREFER", "reference")
    assert envs.read().prefer == "reference"


def test_what_was_read_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        envs.read({}).prefer = "vendor"  # type: ignore[misc]
    hash(envs.read({"VLLM_FL_PER_OP": "a=vendor", "VLLM_FL_PLUGIN_MODULES": "m"}))


def test_unknown_variables_of_the_prefix_come_with_the_nearest_name() -> None:
    unknown = {"VLLM_FL_PREFERR": "vendor", "VLLM_FL_0123456789_0123456789": ""}
    assert envs.misspelled({**unknown, "VLLM_FL_STRICT": "1", "PATH": "/"}) == {
        "VLLM_FL_PREFERR": "VLLM_FL_PREFER",
        "VLLM_FL_0123456789_0123456789": None,
    }
