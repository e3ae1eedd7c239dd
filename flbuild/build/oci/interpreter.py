"""The interpreter of a Debian base, run on this machine without entering the base."""

from __future__ import annotations

import platform
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

from flbuild.errors import BuildError, HostError
from flbuild.files import unnamed_folder
from flbuild.lock.model import LockedDebianBase

_TRIPLETS = {"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}
_LOADERS = {"amd64": "ld-linux-x86-64.so.2", "arm64": "ld-linux-aarch64.so.1"}
_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}


@dataclass(frozen=True)
class Interpreter:
    """How to start it: the command before the script's path, and its environment."""

    command: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]


def require_machine(architecture: str) -> None:
    """Nothing if programs of `architecture` (OCI's name) run here.

    Raises:
        HostError: they do not, so the image cannot get the byte-code that it is locked with.
    """
    if platform.machine() != _MACHINES.get(architecture):
        raise HostError(
            f"this machine ({platform.machine()}) cannot run the {architecture} interpreter of the base, "
            "which compiles the image's byte-code",
            remedy="build on a machine of that architecture, or set python.bytecode to false in the recipe",
        )


def base_interpreter(
    base: LockedDebianBase, layer: Path, architecture: str, version: str, cache_dir: Path
) -> Interpreter:
    """The Python of the base, unpacked below the cache folder once per base.

    It is started through the base's own dynamic loader and libraries, so neither root rights nor a chroot
    are needed, and what it compiles is decided by the locked base alone.

    Raises:
        HostError: this machine cannot run it.
        BuildError: the base has no such Python.
    """
    require_machine(architecture)
    root = cache_dir / "interpreters" / base.layer.diff_id.removeprefix("sha256:")
    if not root.is_dir():
        _unpack(layer, root, architecture)
    library = root / "usr" / "lib" / _TRIPLETS[architecture]
    python = root / "usr" / "bin" / f"python{version}"
    command = (str(library / _LOADERS[architecture]), "--library-path", str(library), str(python))
    environment = (
        ("PYTHONHOME", str(root / "usr")),
        ("PYTHONHASHSEED", "0"),
        # The folder of the worker's script holds modules of this package, not of the interpreter.
        ("PYTHONSAFEPATH", "1"),
        ("LC_ALL", "C.UTF-8"),
    )
    interpreter = Interpreter((*command, "-S", "-s", "-B"), environment)
    _try(interpreter, version)
    return interpreter


def _unpack(layer: Path, root: Path, architecture: str) -> None:
    wanted = ("usr/bin/python3", "usr/lib/python3", f"usr/lib/{_TRIPLETS[architecture]}/")
    with unnamed_folder(root.parent) as workplace:
        complete = workplace / "root"
        complete.mkdir()
        with tarfile.open(layer, "r:gz") as tar:
            for member in tar:
                name = member.name.removeprefix("./")
                if name.startswith(wanted) and not member.isdev():
                    member.mode |= 0o700 if member.isdir() else 0o400
                    tar.extract(member.replace(name=name, deep=False), complete, filter="tar")
        try:
            complete.rename(root)
        except OSError:
            # Another process was quicker.
            if not root.is_dir():
                raise


def _try(interpreter: Interpreter, version: str) -> None:
    command = [*interpreter.command, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=dict(interpreter.environment), check=False
        )
    except OSError as error:
        raise BuildError(f"the base has no Python {version}", cause=str(error)) from error
    if done.stdout.strip() != version:
        raise BuildError(
            f"the base's Python does not start, or is not {version}",
            cause=(done.stderr or done.stdout).strip() or f"it ended with {done.returncode}",
            remedy="correct python.version in the recipe, or base.packages",
        )
