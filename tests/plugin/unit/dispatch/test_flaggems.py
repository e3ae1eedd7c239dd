"""Enabling FlagGems for torch's operators, against a stand-in that records the calls."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from vllm_fl import envs
from vllm_fl.dispatch.config import platform_policy
from vllm_fl.dispatch.flaggems import enable_flaggems, function_names
from vllm_fl.dispatch.settings import merge

SHIPPED = list(platform_policy("nvidia").flagos_blacklist or ())


class FlagGems(ModuleType):
    """What the plugin uses of FlagGems 5.0.2."""

    def __init__(self) -> None:
        super().__init__("flag_gems")
        self.__version__ = "5.0.2"
        self.current_work_registrar: object | None = None
        self.calls: list[tuple[str, dict[str, Any]]] = []
        names = (Path(__file__).parent / "data" / "flag_gems-5.0.2-functions.txt").read_text().split()
        self._FULL_CONFIG = tuple((f"{name}.key", SimpleNamespace(__name__=name)) for name in names)
        self.fused = SimpleNamespace(__all__=["silu_and_mul"])

    def enable(self, **arguments: Any) -> None:
        self.calls.append(("enable", arguments))

    def only_enable(self, **arguments: Any) -> None:
        self.calls.append(("only_enable", arguments))


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> FlagGems:
    made = FlagGems()
    monkeypatch.setitem(sys.modules, "flag_gems", made)
    return made


def enable(device: str = "nvidia", rank: int = 0, **variables: str) -> None:
    enable_flaggems(merge(envs.read(variables), device), rank)


@pytest.fixture
def record(tmp_path: Path) -> dict[str, str]:
    return {"FLAGGEMS_ENABLE_OPLIST_PATH": str(tmp_path / "oplist.txt")}


def test_a_blacklist_excludes_and_a_whitelist_selects(
    library: FlagGems, record: dict[str, str], caplog_vllm: pytest.LogCaptureFixture
) -> None:
    enable(**record)
    enable(**record, VLLM_FL_FLAGOS_BLACKLIST="mm,add")
    enable(**record, VLLM_FL_FLAGOS_WHITELIST="mm,add")
    file = {"record": True, "once": True, "path": record["FLAGGEMS_ENABLE_OPLIST_PATH"]}
    assert library.calls == [
        ("enable", {"unused": SHIPPED, **file}),
        ("enable", {"unused": ["mm", "add"], **file}),
        ("only_enable", {"include": ["mm", "add"], **file}),
    ]
    assert not [r for r in caplog_vllm.records if r.levelname == "WARNING"]


def test_the_list_of_the_device_is_used_and_can_be_extended(
    library: FlagGems, record: dict[str, str]
) -> None:
    enable("ascend", **record, VLLM_FL_FLAGOS_BLACKLIST_APPEND="exp")
    ((name, arguments),) = library.calls
    assert name == "enable"
    assert {"mm", "softmax", "index_put_", "exp"} <= set(arguments["unused"])
    assert len(set(arguments["unused"])) == len(arguments["unused"])


def test_only_the_first_rank_records(library: FlagGems, record: dict[str, str]) -> None:
    enable(rank=1, **record)
    assert library.calls == [("enable", {"unused": SHIPPED, "record": False, "once": True, "path": None})]
    assert not Path(record["FLAGGEMS_ENABLE_OPLIST_PATH"]).exists()


def test_a_record_that_cannot_be_written_does_not_stop_enabling(library: FlagGems, tmp_path: Path) -> None:
    enable(FLAGGEMS_ENABLE_OPLIST_PATH=str(tmp_path / "absent" / "x"))
    assert library.calls == [("enable", {"unused": SHIPPED, "record": False, "once": True, "path": None})]


@pytest.mark.parametrize(
    "variables", [{"USE_FLAGGEMS": "0"}, {"VLLM_FL_PREFER_ENABLED": "0"}, {"VLLM_FL_PREFER": "vendor"}]
)
def test_a_switch_keeps_it_off(variables: dict[str, str], library: FlagGems) -> None:
    enable(**variables)
    assert library.calls == []


def test_the_reference_device_does_not_import_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "flag_gems", None)
    enable("cpu")


def test_B29_another_release_than_the_lists_were_made_for_is_a_warning(
    library: FlagGems, record: dict[str, str], caplog_vllm: pytest.LogCaptureFixture
) -> None:
    library.__version__ = "5.0.2+local"
    enable("ascend", **record)
    assert "were made for release" not in caplog_vllm.text
    library.__version__ = "5.3.4"
    enable("ascend", **record)
    assert "made for release 5.0.2, found 5.3.4" in caplog_vllm.text
    assert len(library.calls) == 2


def test_a_name_flaggems_does_not_know_is_a_warning_with_the_nearest(
    library: FlagGems, record: dict[str, str], caplog_vllm: pytest.LogCaptureFixture
) -> None:
    enable(**record, VLLM_FL_FLAGOS_BLACKLIST="softmaxx,mm,silu_and_mul")
    (message,) = [r.getMessage() for r in caplog_vllm.records if r.levelname == "WARNING"]
    assert message.startswith(
        "FlagGems has no function 'softmaxx', so listing it has no effect; nearest: softmax"
    )


def test_no_name_of_the_shipped_lists_is_unknown(
    library: FlagGems, record: dict[str, str], caplog_vllm: pytest.LogCaptureFixture
) -> None:
    enable("ascend", **record)
    assert "has no function" not in caplog_vllm.text
    assert "silu_and_mul" in function_names(library)


def test_B19_enabling_outside_the_plugin_is_a_warning_because_lists_come_too_late(
    library: FlagGems, caplog_vllm: pytest.LogCaptureFixture
) -> None:
    library.current_work_registrar = object()
    enable("ascend")
    assert "FlagGems was enabled before the plugin started" in caplog_vllm.text
    assert library.calls == []


def test_without_flaggems_torch_stays_as_it_is(
    monkeypatch: pytest.MonkeyPatch, caplog_vllm: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "flag_gems", None)
    enable()
    assert "FlagGems is not installed" in caplog_vllm.text


def test_a_flaggems_that_finds_no_device_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog_vllm: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "flag_gems.py").write_text("raise RuntimeError('no device found')")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "flag_gems", raising=False)
    enable()
    assert "FlagGems cannot start (no device found)" in caplog_vllm.text
