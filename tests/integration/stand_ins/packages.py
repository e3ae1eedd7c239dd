"""Hand-made distributions: as wheels for an index, or as the files of an installation."""

from __future__ import annotations

import base64
import hashlib
import struct
import subprocess
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

MACHINES = {"x86_64": 62, "aarch64": 183}
"""e_machine of an ELF header."""

GEMS = {
    "pyproject.toml": """\
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "flag_gems"
version = "5.0.2"
dependencies = ["packaging==26.0", "numpy==1.26.4", "PyYAML==6.0.3", "sqlalchemy==2.0.48"]
[tool.setuptools.packages.find]
where = ["src"]
""",
    "src/flag_gems/__init__.py": '__version__ = "5.0.2"\n',
    "src/flag_gems/ops/__init__.py": "",
}


def shared_library(machine: str, glibc: str = "2.17") -> bytes:
    """An ELF header of a machine, and one needed symbol version; enough for whoever only looks at it."""
    header = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHI", 3, MACHINES[machine], 1)
    return header.ljust(64, b"\0") + b"\0libc.so.6\0GLIBC_" + glibc.encode() + b"\0"


def distribution(
    name: str,
    version: str,
    files: Mapping[str, bytes],
    requires: Iterable[str] = (),
    tag: str = "py3-none-any",
) -> dict[str, bytes]:
    """Every file of a distribution, RECORD among them, relative to site-packages."""
    info = f"{name.replace('-', '_')}-{version}.dist-info"
    needs = "".join(f"Requires-Dist: {item}\n" for item in requires)
    pure = str(tag.endswith("any")).lower()
    content = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}".encode(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: {pure}\nTag: {tag}\n".encode(),
    }
    rows = [f"{path},sha256={_hash(data)},{len(data)}\n" for path, data in content.items()]
    return {**content, f"{info}/RECORD": f"{''.join(rows)}{info}/RECORD,,\n".encode()}


def write_wheel(
    folder: Path,
    name: str,
    version: str,
    files: Mapping[str, bytes],
    requires: Iterable[str] = (),
    tag: str = "py3-none-any",
) -> Path:
    """The same as a wheel in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name.replace('-', '_')}-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, data in distribution(name, version, files, requires, tag).items():
            archive.writestr(zipfile.ZipInfo(member, (2020, 1, 1, 0, 0, 0)), data)
    return path


def write_vendor_wheels(folder: Path) -> None:
    """The indexes `flagos` and `cann`, each a folder of wheels."""
    flagos, cann = folder / "flagos", folder / "cann"
    _flagtree(flagos, "0.6.2a1+ascend3.5", "3.5.1", "cp311", "aarch64")
    _flagtree(flagos, "0.6.2a1", "3.6.0", "cp312", "x86_64")
    # A release in which its own code is newer than the tag, as a version with a commit is.
    gems = {"flag_gems/__init__.py": b'__version__ = "5.3.5"\n'}
    write_wheel(flagos, "flag_gems", "5.3.5+g34c6d2ce4", gems, ["PyYAML"])
    shmem = {"shmem/__init__.py": b"", "shmem/_core.so": shared_library("aarch64", "2.34")}
    write_wheel(cann, "cann-shmem", "1.6.0", shmem, tag="cp311-cp311-linux_aarch64")


def write_gems_repository(folder: Path) -> str:
    """FlagGems in a bare repository that may be fetched by commit; the commit, always the same one."""
    work = folder.with_suffix(".work")
    for path, text in GEMS.items():
        (work / path).parent.mkdir(parents=True, exist_ok=True)
        (work / path).write_text(text)
    _git(work, "init", "--quiet", "--initial-branch=main")
    _git(work, "add", ".")
    _git(work, "commit", "--quiet", "--message", "FlagGems 5.0.2")
    _git(work, "clone", "--quiet", "--bare", str(work), str(folder))
    _git(folder, "config", "uploadpack.allowAnySHA1InWant", "true")
    return _git(work, "rev-parse", "HEAD").strip()


def _flagtree(folder: Path, version: str, triton: str, python: str, machine: str) -> None:
    """FlagTree owns the module `triton`, and there is no distribution of that name."""
    files = {
        "triton/__init__.py": f'__version__ = "{triton}"\n'.encode(),
        "triton/language/__init__.py": b"",
        "triton/_C/libtriton.so": shared_library(machine, "2.34"),
        f"flagtree-{version}.data/scripts/flagtree-info": b"#!python\nimport triton\n",
    }
    write_wheel(folder, "flagtree", version, files, tag=f"{python}-{python}-linux_{machine}")


def _git(folder: Path, *arguments: str) -> str:
    who = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in _WHO.items()}
    environ = {"PATH": "/usr/local/bin:/usr/bin:/bin", "GIT_CONFIG_GLOBAL": "/dev/null", **who}
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environ).stdout


_WHO = {"NAME": "Tests", "EMAIL": "tests@example.org", "DATE": "2026-01-01T00:00:00Z"}


def _hash(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
