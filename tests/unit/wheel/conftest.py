"""A build backend in a wheel of its own, so that builds need no index, and a repository with a plugin."""

from __future__ import annotations

import os
import subprocess

import pytest

from flbuild.files import sha256_file
from flbuild.index.client import IndexClient
from flbuild.index.git import GitStore
from flbuild.index.store import FileStore
from flbuild.lock.model import LockedFile
from flbuild.progress import Silent
from flbuild.wheel.builder import WheelBuilder

BACKEND = '''
import os
import re
import sys
import time
import zipfile
from pathlib import Path


def build_wheel(folder, config_settings=None, metadata_directory=None):
    """Everything that must not reach a wheel is in this one: times, modes, order, a tag of this machine."""
    pyproject = Path("pyproject.toml").read_text()
    if "fail" in pyproject:
        print("compiling the compiler")
        sys.exit("no such luck")
    name = re.search('name = "(.*)"', pyproject)[1]
    told = f"SETUPTOOLS_SCM_PRETEND_VERSION_FOR_{name.upper()}"
    version = "0.0.0" if "ignores" in pyproject else os.environ[told]
    environment = "\\n".join(f"{key}={value}" for key, value in sorted(os.environ.items()))
    environment = re.sub(r"=.*/flbuild-wheel-.*", "=folder", environment)
    info = f"{name}-{version}.dist-info"
    stem = f"{name}-{version}-cp311-cp311-linux_x86_64"
    metadata = f"Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n"
    wheel = "Wheel-Version: 1.0\\nRoot-Is-Purelib: false\\nTag: cp311-cp311-linux_x86_64\\n"
    new = Path(folder) / f"{stem}.whl"
    with zipfile.ZipFile(new, "w", zipfile.ZIP_DEFLATED) as archive:
        files = [path for path in Path(".").rglob("*") if path.is_file()]
        for path in sorted(files, reverse=os.getpid() % 2):
            archive.write(path)
        generated = Path("generated")
        generated.write_text(environment)
        archive.write(generated, f"{name}/environment.txt")
        archive.writestr(f"{info}/METADATA", metadata)
        archive.writestr(f"{info}/WHEEL", wheel)
        archive.writestr(f"{info}/RECORD", "")
    return new.name
'''

PYPROJECT = """\
[build-system]
requires = ["toybackend"]
build-backend = "toybackend"

[project]
name = "demo"

[project.urls]
"Source Code" = "https://example.org/demo"
"""


@pytest.fixture
def store(make_settings):
    settings = make_settings()
    return FileStore(settings, IndexClient(settings, Silent()), Silent(), offline=True)


@pytest.fixture
def tools(store, make_wheel, tmp_path):
    path = store.add(
        make_wheel(tmp_path / "tools", "toybackend", "1.0", files={"toybackend.py": BACKEND.encode()})
    )
    return (
        LockedFile(
            name="toybackend",
            version="1.0",
            index="pypi",
            filename=path.name,
            sha256=sha256_file(path),
            size=path.stat().st_size,
        ),
    )


@pytest.fixture
def builder(store, make_settings):
    settings = make_settings()
    return WheelBuilder(settings.cache_dir, store, GitStore(settings), Silent())


@pytest.fixture
def project(tmp_path):
    """A source tree that the backend of `tools` builds."""

    def make(folder="source", pyproject=PYPROJECT):
        root = tmp_path / folder
        (root / "demo").mkdir(parents=True)
        (root / "pyproject.toml").write_text(pyproject)
        (root / "demo" / "__init__.py").write_text("value = 1\n")
        script = root / "demo" / "run.sh"
        script.write_text("#!/bin/sh\n")
        script.chmod(0o755)
        return root

    return make


class Repository:
    """A git repository that holds a plugin in its folder `plugin`."""

    def __init__(self, root):
        self.root = root
        self.clock = 1_700_000_000

    def git(self, *arguments):
        self.clock += 60
        environment = {
            **os.environ,
            **{f"GIT_{who}_{what}": "x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
            "GIT_AUTHOR_DATE": f"{self.clock} +0200",
            "GIT_COMMITTER_DATE": f"{self.clock} +0200",
            "GIT_CONFIG_GLOBAL": os.devnull,
        }
        command = ["git", "-C", str(self.root), *arguments]
        return subprocess.run(
            command, check=True, capture_output=True, text=True, env=environment
        ).stdout.strip()

    def write(self, path, text):
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text.encode())

    def commit(self, message="change"):
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)
        return self.git("rev-parse", "HEAD")


ARCHIVAL = (
    "node: $Format:%H$\nnode-date: $Format:%ct$\n"
    "describe-name: $Format:%(describe:tags=true,match=v[0-9]*)$\n"
)


@pytest.fixture
def repository(tmp_path):
    root = tmp_path / "repository"
    root.mkdir()
    made = Repository(root)
    made.git("init", "--quiet")
    made.write(".gitattributes", "* text=auto eol=lf\n.git_archival.txt export-subst\n")
    made.write(".git_archival.txt", ARCHIVAL)
    made.write("README", "not part of the plugin\n")
    made.write("plugin/pyproject.toml", PYPROJECT)
    made.write("plugin/demo/__init__.py", "value = 1\n")
    made.write("plugin/demo/build/__init__.py", "inner = 2\n")
    made.commit()
    return made
