"""What was seen in a running image. It comes out of the image itself, so it is read with suspicion."""

from __future__ import annotations

import json

from pydantic import BaseModel, ConfigDict, ValidationError

from flbuild.verify.run.smoke import BEGIN


class _Seen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Answer(_Seen):
    """What one process in the image found, or its chain of errors, the outermost first."""

    found: str | None
    error: tuple[str, ...]


class Import(Answer):
    """An import; `found` is the file of the module."""

    distribution: str
    module: str


class Registration(Answer):
    """A call of one of the plugin's entry points; `found` is the name of the platform that it returned."""

    group: str
    name: str


class SeenDistribution(_Seen):
    """A distribution as `importlib.metadata` reads it."""

    name: str
    version: str
    requires: tuple[str, ...]


class Observed(_Seen):
    """Everything that `smoke.py` reports.

    Args:
        import_path: `sys.path` without its empty entry.
        python_path: PYTHONPATH, None where it is not set.
        prefixes: `sys.prefix` and `sys.base_prefix`.
        absent_drivers: libraries of drivers that could not be loaded.
        platform: the class of `vllm.platforms.current_platform`.
        pip_check: the lines of `pip check`, empty where all is well, None without pip.
    """

    import_path: tuple[str, ...]
    python_path: str | None
    prefixes: tuple[str, ...]
    absent_drivers: tuple[str, ...]
    installed: tuple[SeenDistribution, ...]
    imports: tuple[Import, ...]
    registrations: tuple[Registration, ...]
    platform: Answer
    pip_check: tuple[str, ...] | None


def read_observed(output: str) -> Observed | None:
    """What the last document in a container's output says; None if there is none that can be read."""
    lines = [line for line in output.splitlines() if line.startswith(BEGIN)]
    if not lines:
        return None
    try:
        return Observed.model_validate(json.loads(lines[-1].removeprefix(BEGIN)))
    except (ValueError, ValidationError):
        return None
