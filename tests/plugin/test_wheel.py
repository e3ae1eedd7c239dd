"""The wheel as a user gets it: installed into an empty environment, used from an empty folder."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.plugin.checkpoints import references
from tests.plugin.conftest import PLUGIN

ISOLATED = ("-I", "-c")


def run(*command: str | Path, cwd: Path, **variables: str) -> str:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "LANG") if name in os.environ}
    done = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env={**kept, **variables},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy without version control, as from a source archive."""
    folder = tmp_path_factory.mktemp("wheel")
    ignored = shutil.ignore_patterns("build", "dist", "*.egg-info", "__pycache__", "_version.py")
    shutil.copytree(PLUGIN, folder / "source", ignore=ignored)
    pip = (sys.executable, "-m", "pip", "wheel", "--no-index", "--no-deps", "--no-build-isolation")
    run(*pip, "--wheel-dir", folder, folder / "source", cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a virtual environment that holds the wheel and nothing else."""
    folder = tmp_path_factory.mktemp("venv")
    run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder)
    python = folder / "bin" / "python"
    run(
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "--no-index",
        "--no-deps",
        wheel,
        cwd=folder,
    )
    return python


def test_wheel_is_pure_and_carries_its_policies(wheel: Path) -> None:
    assert wheel.name == "vllm_plugin_fl-0.0.0-py3-none-any.whl"
    names = zipfile.ZipFile(wheel).namelist()
    policies = {f"vllm_fl/dispatch/config/{device}.yaml" for device in ("nvidia", "ascend", "cpu")}
    assert policies <= set(names)
    assert all(name.startswith(("vllm_fl/", "vllm_plugin_fl-")) for name in names)


def test_entry_points_load_in_an_empty_environment(environment: Path, tmp_path: Path) -> None:
    code = (
        "import json\n"
        "from importlib.metadata import entry_points, requires\n"
        "groups = ['vllm.platform_plugins', 'vllm.general_plugins']\n"
        "found = {g: [[e.name, e.load().__name__] for e in entry_points(group=g)] for g in groups}\n"
        "print(json.dumps([found, requires('vllm-plugin-fl')]))\n"
    )
    found, requirements = json.loads(run(environment, *ISOLATED, code, cwd=tmp_path))
    assert found == {
        "vllm.platform_plugins": [["fl", "register"]],
        "vllm.general_plugins": [["fl", "register_model"]],
    }
    assert requirements == ["pyyaml>=6.0"]


def test_nothing_is_installed_editable(environment: Path, tmp_path: Path) -> None:
    pip = (sys.executable, "-m", "pip", "--python", environment, "list", "--format", "json")
    assert json.loads(run(*pip, "--editable", cwd=tmp_path)) == []
    assert [package["name"] for package in json.loads(run(*pip, cwd=tmp_path))] == ["vllm-plugin-fl"]


def test_B82_installed_wheel_generates_from_an_empty_folder(
    environment: Path, tmp_path: Path, checkpoint: Callable[[str], Path]
) -> None:
    expected = references(checkpoint("qwen3"))[0]
    borrowed = tmp_path / "venv"
    shutil.copytree(environment.parents[1], borrowed, symlinks=True)
    (site,) = borrowed.glob("lib/python*/site-packages")
    # vLLM and torch come from the environment of the tests, the plugin from the wheel.
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    empty = tmp_path / "empty"
    empty.mkdir()
    code = (
        "import json, vllm_fl\n"
        "from vllm import LLM, SamplingParams\n"
        f"llm = LLM({str(checkpoint('qwen3'))!r}, enforce_eager=True, dtype='float32', max_model_len=256,\n"
        "          max_num_batched_tokens=512, kv_cache_memory_bytes=1 << 24)\n"
        "sampling = SamplingParams(temperature=0, max_tokens=16, ignore_eos=True)\n"
        f"(output,) = llm.generate([{{'prompt_token_ids': {list(expected.prompt)}}}], sampling)\n"
        "print('\\n' + json.dumps([vllm_fl.__file__, list(output.outputs[0].token_ids)]))\n"
    )
    variables = {
        "VLLM_PLUGINS": "fl",
        "VLLM_FL_PLATFORM": "cpu",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_NO_USAGE_STATS": "1",
        "OMP_NUM_THREADS": "1",
    }
    printed = run(borrowed / "bin" / "python", *ISOLATED, code, cwd=empty, **variables)
    module, tokens = next(json.loads(line) for line in printed.splitlines() if line.startswith('["/'))
    assert module.startswith(str(site))
    assert tokens == list(expected.generated)
    assert list(empty.iterdir()) == []
