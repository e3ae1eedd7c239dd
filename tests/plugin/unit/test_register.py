"""Entry points: what they choose, what they say when they fail, and how little they import."""

from __future__ import annotations

import subprocess
import sys
import types

import pytest


def run(code: str, environment: dict[str, str], **variables: str | None) -> subprocess.CompletedProcess[str]:
    """Run Python code in a fresh process; a variable that is None is left unset."""
    merged = {**environment, **{k: v for k, v in variables.items() if v is not None}}
    for name in (name for name, value in variables.items() if value is None):
        merged.pop(name, None)
    return subprocess.run(
        [sys.executable, "-c", code], env=merged, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.fixture
def fake_vllm(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    module = types.ModuleType("vllm")
    module.__version__ = "0.28.0+empty"
    module.envs = types.ModuleType("vllm.envs")
    module.envs.environment_variables = {}
    monkeypatch.setitem(sys.modules, "vllm", module)
    monkeypatch.setitem(sys.modules, "vllm.envs", module.envs)
    return module


PLATFORM = "import vllm.platforms as p; print('PLATFORM', type(p.current_platform).__name__)"


@pytest.mark.parametrize(
    ("plugins", "platform", "chosen"),
    [
        (None, "cpu", "CpuPlatformFL"),
        ("fl", "cpu", "CpuPlatformFL"),
        ("fl", None, "UnspecifiedPlatform"),
        ("other", "cpu", "UnspecifiedPlatform"),
    ],
)
def test_plugin_is_active_only_when_listed_and_asked_for(
    plugins: str | None, platform: str | None, chosen: str, plugin_environment: dict[str, str]
) -> None:
    done = run(PLATFORM, plugin_environment, VLLM_PLUGINS=plugins, VLLM_FL_PLATFORM=platform)
    assert f"PLATFORM {chosen}" in done.stdout, done.stderr


def test_B51_a_failing_registration_is_reported_although_vllm_drops_it(
    plugin_environment: dict[str, str],
) -> None:
    done = run(PLATFORM, plugin_environment, VLLM_FL_PLATFORM="tpu9")
    assert "PLATFORM UnspecifiedPlatform" in done.stdout
    assert "Traceback" in done.stderr
    assert "VLLM_FL_PLATFORM='tpu9' is not a known device; accepted: ascend, nvidia, cuda, cpu" in done.stderr


def test_general_plugin_stops_the_engine_when_the_platform_could_not_be_chosen(
    plugin_environment: dict[str, str],
) -> None:
    code = "from vllm.plugins import load_general_plugins; load_general_plugins()"
    done = run(code, plugin_environment, VLLM_FL_PLATFORM="tpu9")
    assert done.returncode != 0
    assert "accepted: ascend" in done.stderr


def test_B1_another_vllm_series_gets_one_clear_line(
    fake_vllm: types.ModuleType, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import vllm_fl

    fake_vllm.__version__ = "0.13.0"
    monkeypatch.setenv("VLLM_FL_PLATFORM", "cpu")
    with pytest.raises(RuntimeError):
        vllm_fl.register()
    (record,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert f"vllm-plugin-fl {vllm_fl.__version__} supports vLLM 0.28.x, found 0.13.0" in record.message
    assert record.exc_info is None


def test_version_mismatch_may_be_allowed(
    fake_vllm: types.ModuleType, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import vllm_fl

    fake_vllm.__version__ = "0.29.1"
    monkeypatch.setenv("VLLM_FL_PLATFORM", "cpu")
    monkeypatch.setenv("VLLM_FL_ALLOW_VERSION_MISMATCH", "true")
    assert vllm_fl.register() == "vllm_fl.platform.CpuPlatformFL"
    assert "found 0.29.1" in caplog.text


@pytest.mark.usefixtures("restored_environment")
def test_vllm_learns_the_names_of_the_variables(
    fake_vllm: types.ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    import vllm_fl

    monkeypatch.setenv("VLLM_FL_PLATFORM", "cpu")
    vllm_fl.register()
    assert fake_vllm.envs.environment_variables["VLLM_FL_PLATFORM"]() == "cpu"
    assert all(name.startswith("VLLM_FL_") for name in fake_vllm.envs.environment_variables)


@pytest.mark.parametrize(
    ("extension", "platform"),
    [
        (True, "vllm_fl.nvidia_platform.NvidiaPlatformFL"),
        (False, "vllm_fl.empty_nvidia_platform.EmptyNvidiaPlatformFL"),
    ],
)
@pytest.mark.usefixtures("fake_vllm", "restored_environment")
def test_register_may_run_any_number_of_times(
    extension: bool, platform: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import vllm_fl

    monkeypatch.setenv("VLLM_FL_PLATFORM", "nvidia")
    monkeypatch.setattr("vllm_fl.devices.detect.has_extension", lambda: extension)
    assert {vllm_fl.register() for _ in range(5)} == {platform}


@pytest.mark.usefixtures("fake_vllm")
def test_register_keeps_what_the_user_exported(
    restored_environment: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    import vllm_fl

    monkeypatch.setenv("VLLM_FL_PLATFORM", "ascend")
    monkeypatch.setenv("VLLM_WORKER_MULTIPROC_METHOD", "fork")
    monkeypatch.delenv("VLLM_USE_V2_MODEL_RUNNER", raising=False)
    assert vllm_fl.register() == "vllm_fl.platform.AscendPlatformFL"
    assert os.environ["VLLM_WORKER_MULTIPROC_METHOD"] == "fork"
    assert os.environ["VLLM_USE_V2_MODEL_RUNNER"] == "0"


@pytest.mark.parametrize("absent", ["vllm", "torch_npu", "flag_gems", "triton"])
def test_B2_package_imports_without_its_optional_companions(
    absent: str, plugin_environment: dict[str, str]
) -> None:
    code = (
        f"import sys; sys.modules[{absent!r}] = None; import vllm_fl; "
        "assert not {'torch', 'yaml'} & sys.modules.keys(), 'heavy import'"
    )
    done = run(code, plugin_environment)
    assert done.returncode == 0, done.stderr


def test_B10_vllm_help_works_with_the_plugin(plugin_environment: dict[str, str]) -> None:
    code = "import sys; sys.argv = ['vllm', '--help']; from vllm.entrypoints.cli.main import main; main()"
    done = run(code, plugin_environment)
    assert done.returncode == 0, done.stderr
    assert "serve" in done.stdout
    assert "Traceback" not in done.stderr


def test_B14_layers_register_twice_after_vllm_compilation_without_vendor_libraries(
    plugin_environment: dict[str, str],
) -> None:
    code = (
        "import importlib, pkgutil, sys, vllm_fl; vllm_fl.register(); import vllm.compilation as c; "
        "[importlib.import_module(f'vllm.compilation.{m.name}') for m in pkgutil.iter_modules(c.__path__)]; "
        "vllm_fl.register_model(); vllm_fl.register_model(); "
        "assert not {'flag_gems', 'torch_npu'} & sys.modules.keys(); print('DONE')"
    )
    done = run(code, plugin_environment)
    assert "DONE" in done.stdout, done.stderr
