"""What every test of the plugin shares: the tree under test as an installed plugin, and tiny checkpoints."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib

REPOSITORY = Path(__file__).parents[2]
PLUGIN = REPOSITORY / "plugin"

_metadata: tempfile.TemporaryDirectory[str] | None = None


def write_metadata(folder: Path) -> None:
    """Make the source tree look installed: vLLM finds plugins through distribution metadata only."""
    project = tomllib.loads((PLUGIN / "pyproject.toml").read_text())["project"]
    info = folder / "vllm_plugin_fl-0.0.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 0.0.0\n")
    groups = (
        f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in entries.items())
        for group, entries in project["entry-points"].items()
    )
    (info / "entry_points.txt").write_text("\n".join(groups))


def pytest_configure(config: pytest.Config) -> None:
    global _metadata
    _metadata = tempfile.TemporaryDirectory(prefix="vllm-plugin-fl-")
    write_metadata(Path(_metadata.name))
    sys.path[:0] = [str(PLUGIN), _metadata.name, str(REPOSITORY)]
    # Tests that import vLLM in this process see the reference device, whatever the machine has.
    os.environ.update(_plugin_variables())


def pytest_unconfigure(config: pytest.Config) -> None:
    if _metadata is not None:
        _metadata.cleanup()


def _plugin_variables() -> dict[str, str]:
    return {
        "VLLM_PLUGINS": "fl",
        "VLLM_FL_PLATFORM": os.environ.get("FL_TEST_PLATFORM", "cpu"),
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
    }


@pytest.fixture(scope="session")
def plugin_environment() -> dict[str, str]:
    """Environment of a process that runs vLLM with the tree under test on the reference device."""
    assert _metadata is not None
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("VLLM_", "USE_FLAGGEMS", "TRITON_"))}
    return {**kept, **_plugin_variables(), "PYTHONPATH": os.pathsep.join((str(PLUGIN), _metadata.name))}


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a tiny checkpoint by model name, built on first use."""
    from tests.plugin import checkpoints

    root = tmp_path_factory.mktemp("checkpoints")

    def folder(name: str) -> Path:
        path = root / name
        return path if path.exists() else checkpoints.build(name, path)

    return folder


@pytest.fixture
def restored_environment() -> Iterator[None]:
    """Undo whatever the test, or the code it runs, exports."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)
