from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flbuild.cli.wheel import app
from flbuild.errors import LockStaleError, UsageError, VerificationError
from flbuild.files import sha256_file
from flbuild.index.client import IndexClient
from flbuild.index.store import FileStore
from flbuild.lock.io import write_lock
from flbuild.lock.model import Lock, LockedFile, LockedImage, LockedSource, SourceFile
from flbuild.progress import Silent
from flbuild.settings import load_settings

RECIPE = """\
schema: 1
name: demo
summary: a small image
platform: linux/amd64
python: {version: "3.11", site_packages: /usr/lib/python3/dist-packages}
base: {debian: bookworm}
vllm: {version: 0.28.0, device: empty}
plugin: {path: plugin, name: demo}
targets: {release: {}}
image: {repository: example.org/team/demo, tag: demo}
"""

BACKEND = b"""
import os, zipfile
def build_wheel(folder, config_settings=None, metadata_directory=None):
    version = os.environ["SETUPTOOLS_SCM_PRETEND_VERSION_FOR_DEMO"]
    name, info = f"demo-{version}-py3-none-any.whl", f"demo-{version}.dist-info"
    with zipfile.ZipFile(f"{folder}/{name}", "w") as archive:
        archive.write("demo.py")
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\\nName: demo\\nVersion: {version}\\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        archive.writestr(f"{info}/RECORD", "")
    return name
"""


@pytest.fixture
def project(tmp_path, monkeypatch, make_wheel):
    """A project whose plugin is built by a backend of its own, with a lock that pins that."""
    root = tmp_path / "project"
    for path, text in {
        "recipes/demo.yaml": RECIPE,
        "plugin/pyproject.toml": '[build-system]\nbuild-backend = "toybackend"\n[project]\nname = "demo"\n',
        "plugin/demo.py": "value = 1\n",
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    monkeypatch.setenv("FLBUILD_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(root)
    settings = load_settings(root, {"FLBUILD_CACHE_DIR": str(tmp_path / "cache")})
    store = FileStore(settings, IndexClient(settings, Silent()), Silent(), offline=True)
    tool = store.add(make_wheel(tmp_path, "toybackend", "1.0", files={"toybackend.py": BACKEND}))
    vllm = store.add(make_wheel(tmp_path, "vllm", "0.28.0+empty"))
    sdist = SourceFile(index="pypi", filename="vllm-0.28.0.tar.gz", sha256="a" * 64, size=1)
    facts = {"filename": vllm.name, "sha256": sha256_file(vllm), "size": vllm.stat().st_size}
    image = LockedImage(
        recipe="sha256:" + "0" * 64,
        platform="linux/amd64",
        python="3.11",
        packages=(),
        sources=(LockedSource(name="vllm", version="0.28.0+empty", source=sdist, **facts),),
    )
    pins = {"filename": tool.name, "sha256": sha256_file(tool), "size": tool.stat().st_size}
    tools = (LockedFile(name="toybackend", version="1.0", index="pypi", **pins),)
    write_lock(root / "images.lock", Lock(build_tools=tools, images={"demo": image}))
    return root


def run(*arguments):
    result = CliRunner().invoke(app, [str(item) for item in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_the_result_is_the_path_of_the_wheel_and_nothing_else(project, tmp_path):
    result = run("plugin", "--output", tmp_path / "out")
    path = Path(result.stdout.strip())
    assert result.stdout == f"{path}\n"
    assert path.parent == tmp_path / "out"
    assert path.name.startswith("demo-0.0.0+export.")
    assert "records no commit" in result.stderr


def test_json_tells_where_a_wheel_comes_from(project, tmp_path):
    for command in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=x", "-c", "user.email=x", "commit", "-qm", "x"],
    ):
        subprocess.run(["git", *command], check=True)
    data = json.loads(run("plugin", "--output", tmp_path / "out", "--json").stdout)
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert data["revision"] == head
    assert data["version"] == f"0.0.0+g{head[:7]}"
    assert data["sha256"] == sha256_file(Path(data["path"]))
    assert {"archive_sha256", "epoch", "filename", "name", "size"} <= data.keys()


def test_a_locked_source_is_built_by_name(project, tmp_path):
    path = Path(run("vllm-empty", "--output", tmp_path / "out").stdout.strip())
    assert path.name == "vllm-0.28.0+empty-py3-none-any.whl"
    assert path.is_file()


def test_any_word_that_is_no_command_names_a_source(project, tmp_path):
    with pytest.raises(UsageError, match="perhaps you meant 'vllm-empty'"):
        run("vllm-epmty", "--output", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_without_a_lock_nothing_is_built(project, tmp_path):
    (project / "images.lock").unlink()
    with pytest.raises(LockStaleError, match="pins no build tools"):
        run("plugin", "--output", tmp_path / "out")
    with pytest.raises(LockStaleError):
        run("vllm-empty", "--output", tmp_path / "out")


def test_recipes_have_to_agree_on_the_plugin(project, tmp_path):
    other = RECIPE.replace("name: demo\n", "name: other\n", 1).replace("path: plugin", "path: another")
    (project / "recipes" / "other.yaml").write_text(other)
    with pytest.raises(UsageError, match="different plugins: demo in another, demo in plugin"):
        run("plugin", "--output", tmp_path / "out")


def test_a_sound_wheel_passes_the_check(make_wheel, tmp_path):
    path = make_wheel(tmp_path, "demo", "1.0")
    assert run("check", path).stdout == "demo-1.0-py3-none-any.whl is sound\n"


def test_a_wheel_that_lies_fails_the_check(make_wheel, tmp_path):
    elf = b"\x7fELF\x02\x01\x01" + b"\0" * 11 + b"\x3e\0" + b"\0" * 64
    path = make_wheel(tmp_path, "demo", "1.0", files={"demo/core.so": elf})
    with pytest.raises(VerificationError, match="tagged 'any'"):
        run("check", path)
    result = CliRunner().invoke(app, ["check", str(path), "--json"])
    (finding,) = json.loads(result.stdout)["findings"]
    assert finding["severity"] == "error"


def test_a_missing_file_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match="is no file"):
        run("check", tmp_path / "absent.whl")
