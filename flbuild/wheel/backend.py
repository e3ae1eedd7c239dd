"""Running a PEP 517 build backend in a closed environment, with a log."""

from __future__ import annotations

import os
import subprocess
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pyproject_hooks import BackendUnavailable, BuildBackendHookCaller

from flbuild.errors import BuildError
from flbuild.settings.toml import parse_toml

CLOSED: Mapping[str, str] = MappingProxyType(
    {
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
)
"""What every build gets in place of what differs between machines and users."""

SHOWN_LINES = 20
"""How much of the log an error repeats; the rest is in the log file."""


def build_wheel(
    source: Path, output: Path, *, python: Path, environment: Mapping[str, str], log: Path, epoch: int
) -> Path:
    """Build the wheel of the project in `source`.

    Nothing of the caller's environment reaches the build but PATH: a locale, a time zone, a pip setting or
    a credential must neither change a wheel nor end up in it.

    Args:
        python: the interpreter of an environment that holds the build tools.
        environment: variables of this build.
        log: where everything the backend prints is kept.
        epoch: SOURCE_DATE_EPOCH, in seconds.

    Raises:
        BuildError: the backend is not among the tools, or failed.
    """
    system = _build_system(source)
    home = output / "home"
    home.mkdir(parents=True, exist_ok=True)
    log.parent.mkdir(parents=True, exist_ok=True)
    closed = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(home),
        "TMPDIR": str(home),
        **CLOSED,
        "SOURCE_DATE_EPOCH": str(epoch),
        **environment,
    }

    def run(
        cmd: Sequence[str],
        cwd: str | None = None,
        extra_environ: Mapping[str, str] | None = None,
    ) -> None:
        with log.open("ab") as stream:
            subprocess.run(
                cmd,
                cwd=cwd,
                env={**closed, **(extra_environ or {})},
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                umask=0o022,
                check=True,
            )

    log.write_bytes(b"")
    backend = system.get("build-backend", "setuptools.build_meta:__legacy__")
    hooks = BuildBackendHookCaller(
        str(source),
        backend,
        backend_path=system.get("backend-path"),
        runner=run,
        python_executable=str(python),
    )
    try:
        with warnings.catch_warnings():
            # The hooks repeat the backend's warnings here; they are in the log.
            warnings.simplefilter("ignore")
            return output / hooks.build_wheel(str(output))
    except BackendUnavailable as error:
        raise BuildError(
            f"{source.name} is built by {backend}, which the locked build tools do not offer",
            remedy="add it to flbuild/wheel/build-tools.txt and run flbuild lock",
        ) from error
    except subprocess.CalledProcessError as error:
        tail = log.read_text(encoding="utf-8", errors="replace").rstrip().splitlines()[-SHOWN_LINES:]
        raise BuildError(
            f"the wheel of {source.name} could not be built (the backend ended with {error.returncode})\n"
            + "\n".join(f"  | {line}" for line in tail),
            log=log,
        ) from error


def _build_system(source: Path) -> dict[str, Any]:
    pyproject = source / "pyproject.toml"
    if not pyproject.is_file():
        return {}
    return dict(parse_toml(pyproject.read_text(encoding="utf-8")).get("build-system", {}))
