"""Where implementations are found, and what one that fails leaves standing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from vllm_fl import envs
from vllm_fl.dispatch import discovery
from vllm_fl.dispatch.discovery import Discovery, discover, known_vendors
from vllm_fl.dispatch.registry import OpRegistry
from vllm_fl.dispatch.settings import merge

SHIPPED_OPERATORS = {
    "silu_and_mul",
    "gelu_and_mul",
    "rms_norm",
    "rotary_embedding",
    "attention_backend",
    "topk_softmax",
    "grouped_topk",
    "moe_align_block_size",
    "moe_sum",
    "invoke_fused_moe_triton_kernel",
    "dynamic_per_token_quant_int8",
}


def found(device: str = "cpu", **variables: str) -> tuple[OpRegistry, Discovery]:
    registry = OpRegistry()
    return registry, discover(registry, merge(envs.read(variables), device))


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(name: str, text: str) -> None:
        (tmp_path / f"{name}.py").write_text(text)

    return write


REGISTERS = """
from vllm_fl.dispatch.types import OpImpl
def {hook}(registry):
    registry.register_impl(OpImpl("{op}", "vendor.acme", "vendor", print, vendor="acme"))
    {rest}
"""


def test_every_operator_is_registered_on_every_device() -> None:
    for device in ("cpu", "nvidia", "ascend"):
        registry, _ = found(device)
        assert set(registry.list_operators()) == SHIPPED_OPERATORS


@pytest.mark.parametrize(
    ("device", "vendors"), [("cpu", set()), ("nvidia", {"cuda"}), ("ascend", {"ascend"})]
)
def test_only_the_vendor_of_the_device_is_loaded(device: str, vendors: set[str]) -> None:
    assert known_vendors() == {"cuda", "ascend"}
    assert found(device)[0].vendors() == vendors
    others = known_vendors() - vendors
    code = (
        "import sys; from vllm_fl import envs; from vllm_fl.dispatch.discovery import discover; "
        "from vllm_fl.dispatch.registry import OpRegistry; from vllm_fl.dispatch.settings import merge; "
        f"discover(OpRegistry(), merge(envs.read({{}}), {device!r})); "
        f"print([m for m in sys.modules if any(f'vendor.{{o}}.' in m for o in {sorted(others)!r})], "
        "{'torch', 'vllm', 'flag_gems', 'torch_npu'} & sys.modules.keys())"
    )
    environment = {"PYTHONPATH": ":".join(sys.path)}
    child = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60
    )
    assert child.stdout.strip() == "[] set()", child.stderr


def test_vendor_code_never_reaches_into_the_worker() -> None:
    root = Path(discovery.__file__).parent / "backends"
    offenders = [path.name for path in root.rglob("*.py") if "vllm_fl.worker" in path.read_text()]
    assert offenders == []


@pytest.mark.parametrize("hook", ["vllm_fl_register", "register"])
def test_external_modules_register_through_either_hook(hook: str, module: Callable[[str, str], None]) -> None:
    module(f"external_{hook}", REGISTERS.format(hook=hook, op="own_op", rest=""))
    registry, result = found(VLLM_FL_PLUGIN_MODULES=f"external_{hook}")
    assert registry.get_implementation("own_op", "vendor.acme") is not None
    assert f"module external_{hook}" in result.loaded


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("raise OSError('no driver')", "OSError: no driver"),
        ("import no_such_library", "ModuleNotFoundError"),
        ("x = 1", "defines neither vllm_fl_register nor register"),
        (REGISTERS.format(hook="register", op="own_op", rest="raise RuntimeError('half way')"), "half way"),
    ],
)
def test_an_external_module_that_fails_is_recorded_and_leaves_nothing_behind(
    text: str, reason: str, module: Callable[[str, str], None], caplog_vllm: pytest.LogCaptureFixture
) -> None:
    name = f"failing_{abs(hash(text))}"
    module(name, text)
    registry, result = found(VLLM_FL_PLUGIN_MODULES=name)
    assert reason in result.failed[f"module {name}"]
    assert set(registry.list_operators()) == SHIPPED_OPERATORS
    assert f"The operators of module {name} are left out" in caplog_vllm.text


def test_an_absent_module_does_not_stop_the_next_one(module: Callable[[str, str], None]) -> None:
    module("external_second", REGISTERS.format(hook="register", op="own_op", rest=""))
    registry, result = found(VLLM_FL_PLUGIN_MODULES="no_such_module,external_second")
    assert list(result.failed) == ["module no_such_module"]
    assert registry.get_implementations("own_op")


def test_entry_points_register_too(monkeypatch: pytest.MonkeyPatch) -> None:
    groups: list[str] = []

    def fail() -> None:
        raise ImportError("broken package")

    def entry_points(group: str) -> list[SimpleNamespace]:
        groups.append(group)
        return [
            SimpleNamespace(name="broken", load=fail),
            SimpleNamespace(name="sound", load=lambda: lambda registry: registry.register_many([])),
        ]

    monkeypatch.setattr(discovery, "entry_points", entry_points)
    _, result = found()
    assert groups == ["vllm_fl.plugin"]
    assert "entry point sound" in result.loaded
    assert result.failed == {"entry point broken": "ImportError: broken package"}


def test_fault_e_a_vendor_that_fails_is_a_warning_and_leaves_the_formulas(
    monkeypatch: pytest.MonkeyPatch, caplog_vllm: pytest.LogCaptureFixture
) -> None:
    def broken(name: str) -> None:
        raise ImportError("libcuda.so.1: cannot open shared object file")

    monkeypatch.setattr(discovery, "_vendor_hook", broken)
    registry, result = found("nvidia")
    assert "libcuda.so.1" in result.failed["vendor cuda"]
    assert registry.get_implementation("rms_norm", "reference.torch") is not None
    (record,) = [r for r in caplog_vllm.records if "vendor cuda" in r.getMessage()]
    assert record.levelname == "WARNING"
