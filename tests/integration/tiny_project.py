"""A project of a few files that locks and builds in seconds; all it needs is on loopback and in folders."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import tarfile
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from random import Random

from checkout import REPOSITORY, Checkout

from flbuild.files import link_or_copy
from flbuild.index.client import IndexClient
from flbuild.index.store import FileStore
from flbuild.lock.io import read_lock, write_lock
from flbuild.lock.model import Lock
from flbuild.progress import Silent
from flbuild.settings import Settings

NAME = "tiny"

_RECIPE = """\
schema: 1
name: tiny
summary: a small image
platform: linux/amd64
python: {{version: "3.11", site_packages: /usr/lib/python3/dist-packages}}
base: {{image: "{base}"}}
vllm: {{version: 0.28.0, device: empty}}
packages:
  - {{name: torch, version: 2.13.0+cpu, index: pytorch-cpu}}
targets:
  release: {{}}
image: {{repository: {repository}, tag: "tiny-{{target}}"}}
"""

_PLUGIN = {
    "pyproject.toml": """\
[build-system]
requires = ["setuptools", "setuptools_scm"]
build-backend = "setuptools.build_meta"
[project]
name = "vllm-plugin-fl"
dynamic = ["version"]
[tool.setuptools_scm]
root = ".."
[tool.setuptools]
packages = ["vllm_fl"]
""",
    "vllm_fl/__init__.py": "VALUE = 1\n",
}

_VLLM = {
    "pyproject.toml": '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n',
    "setup.py": """\
import os
from setuptools import setup
setup(name="vllm", version=os.environ["VLLM_VERSION_OVERRIDE"], packages=["vllm"],
      install_requires=["torch==2.13.0", "regex"])
""",
    "vllm/__init__.py": "VALUE = 2\n",
    "PKG-INFO": "Metadata-Version: 2.1\nName: vllm\nVersion: 0.28.0\n",
}

LARGE = 24 << 20
"""Bytes of torch: enough for a kill to arrive while it is compressed or sent."""


def make_packages(folder: Path, settings: Settings) -> Path:
    """Two indexes below `folder`, `pypi` with the locked build tools and `pytorch-cpu`."""
    pypi, torch = folder / "pypi", folder / "pytorch-cpu"
    pypi.mkdir(parents=True)
    progress = Silent()
    store = FileStore(settings, IndexClient(settings, progress), progress)
    for path in store.fetch_all(read_lock(REPOSITORY / "images.lock").build_tools).values():
        link_or_copy(path, pypi / path.name)
    _make_wheel(pypi, "regex", "1.0", {"regex.py": b"VALUE = 3\n"})
    _make_wheel(pypi, "sympy", "1.0", {"sympy.py": b"VALUE = 4\n"})
    noise = Random("torch").randbytes(LARGE)
    _make_wheel(torch, "torch", "2.13.0+cpu", {"torch/__init__.py": b"", "torch/data": noise}, ["sympy"])
    with tarfile.open(pypi / "vllm-0.28.0.tar.gz", "w:gz") as archive:
        for name, text in _VLLM.items():
            member = tarfile.TarInfo(f"vllm-0.28.0/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return folder


def make_project(root: Path, packages: Path, base: str, repository: str, cache: Path) -> Checkout:
    """A project with one commit, the same one whenever it is made."""
    files = {f"plugin/{name}": text for name, text in _PLUGIN.items()}
    files[f"recipes/{NAME}.yaml"] = _RECIPE.format(base=base, repository=repository)
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    write_lock(root / "images.lock", Lock(build_tools=read_lock(REPOSITORY / "images.lock").build_tools))
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(root.parent),
        "FLBUILD_CACHE_DIR": str(cache),
        "FLBUILD_INDEX_PYPI_URL": str(packages / "pypi"),
        "FLBUILD_INDEX_PYTORCH_CPU_URL": str(packages / "pytorch-cpu"),
        **{f"GIT_{role}_DATE": "2026-01-01T00:00:00Z" for role in ("AUTHOR", "COMMITTER")},
    }
    project = Checkout(root, environ)
    project.git("init", "--quiet")
    project.git("add", "plugin")
    project.git("commit", "--quiet", "--message", "A plugin")
    return project


def _make_wheel(
    folder: Path, name: str, version: str, files: Mapping[str, bytes], requires: Iterable[str] = ()
) -> None:
    info = f"{name}-{version}.dist-info"
    needs = "".join(f"Requires-Dist: {item}\n" for item in requires)
    content = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    rows = [f"{path},sha256={_hash(data)},{len(data)}\n" for path, data in content.items()]
    content[f"{info}/RECORD"] = f"{''.join(rows)}{info}/RECORD,,\n".encode()
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for path, data in content.items():
            archive.writestr(zipfile.ZipInfo(path, (2020, 1, 1, 0, 0, 0)), data)


def _hash(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
