from __future__ import annotations

import json
import subprocess

import pytest

from flbuild.errors import BuildError
from flbuild.wheel.tools import ToolEnvironments, tools_key


@pytest.fixture
def environments(store, tmp_path):
    return ToolEnvironments(tmp_path / "cache", store)


def test_an_environment_holds_the_tools_and_nothing_else(environments, tools):
    python = environments.python(tools)
    code = "import importlib.metadata as m, json; print(json.dumps([d.name for d in m.distributions()]))"
    done = subprocess.run([python, "-I", "-c", code], capture_output=True, check=True, text=True)
    assert json.loads(done.stdout) == ["toybackend"]


def test_an_environment_is_made_once(environments, tools, monkeypatch):
    first = environments.python(tools)
    monkeypatch.setattr("flbuild.wheel.tools.find_uv_bin", lambda: "/nowhere/uv")
    assert environments.python(tools) == first


def test_what_a_killed_process_left_is_replaced(environments, tools):
    python = environments.python(tools)
    (python.parent.parent / "complete").unlink()
    assert environments.python(tools) == python
    assert (python.parent.parent / "complete").is_file()


def test_a_users_configuration_of_uv_is_not_read(environments, tools, monkeypatch):
    monkeypatch.setenv("UV_PYTHON", "2.7")
    monkeypatch.setenv("UV_INDEX_URL", "http://index.invalid/")
    assert environments.python(tools).exists()


def test_the_key_depends_on_the_bytes_and_not_on_the_order(tools):
    other = tools[0].model_copy(update={"sha256": "0" * 64})
    assert tools_key((*tools, other)) == tools_key((other, *tools))
    assert tools_key(tools) != tools_key((other,))


def test_a_tool_that_is_no_wheel_is_a_build_error(environments, store, tools, tmp_path):
    path = tmp_path / "broken-1.0-py3-none-any.whl"
    path.write_bytes(b"no wheel")
    stored = store.add(path)
    broken = tools[0].model_copy(update={"filename": path.name, "sha256": stored.parent.name})
    with pytest.raises(BuildError, match="build tools could not be installed"):
        environments.python((broken,))
