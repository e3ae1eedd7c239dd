"""Environments that hold exactly the locked build tools, one per set of tools and interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from uv import find_uv_bin

from flbuild.errors import BuildError, LockStaleError
from flbuild.files import sha256_bytes, unnamed_folder
from flbuild.index.store import FileStore
from flbuild.lock.model import LockedFile


def tools_key(tools: Sequence[LockedFile]) -> str:
    """A short name for a set of build tools; everything they decide is in their bytes."""
    return sha256_bytes("\n".join(sorted(tool.sha256 for tool in tools)).encode())[:16]


class ToolEnvironments:
    """Virtual environments below the cache folder, made from store files without any index.

    They are separate from the environment flbuild runs in: whatever is installed there must not be able to
    take part in a build, or two machines would build two different wheels from one source.
    """

    def __init__(self, cache_dir: Path, store: FileStore) -> None:
        self._root = cache_dir / "build-tools"
        self._store = store

    def python(self, tools: Sequence[LockedFile]) -> Path:
        """The interpreter of the environment that holds `tools`.

        Raises:
            LockStaleError: the lock pins no build tools.
            BuildError: the environment could not be made.
        """
        if not tools:
            raise LockStaleError("the lock pins no build tools", remedy="flbuild lock")
        version = f"{sys.version_info.major}.{sys.version_info.minor}.{sys.version_info.micro}"
        folder = self._root / f"{tools_key(tools)}-{version}"
        python = folder / "bin" / "python"
        if not (python.exists() and (folder / "complete").is_file()):
            self._make(folder, tools)
        return python

    def _make(self, folder: Path, tools: Sequence[LockedFile]) -> None:
        wheels = self._store.fetch_all(tools)
        with unnamed_folder(self._root) as workplace:
            made = workplace / "env"
            _uv("venv", "--quiet", "--python", sys.executable, str(made))
            _uv(
                *("pip", "install", "--quiet", "--offline", "--no-index", "--no-deps"),
                # Builds write no byte-code, so without it each of them would compile all of the tools.
                "--compile-bytecode",
                *("--python", str(made / "bin" / "python")),
                *(str(path) for path in sorted(wheels.values())),
            )
            (made / "complete").touch()
            if folder.exists():
                folder.rename(workplace / "broken")
            try:
                made.rename(folder)
            except OSError:
                # Another process was quicker, and what it made is the same.
                if not (folder / "complete").is_file():
                    raise


def _uv(*arguments: str) -> None:
    """Run uv apart from whatever the user configured for it; the environment's place may be moved later."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("UV_", "PIP_"))}
    done = subprocess.run(
        [find_uv_bin(), "--no-config", *arguments],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    if done.returncode:
        raise BuildError(
            f"the build tools could not be installed (uv {arguments[0]})", cause=done.stderr.strip()
        )
