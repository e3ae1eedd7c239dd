"""The Dockerfile, from the project's templates."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from flbuild.lock.model import LockedDebianBase
from flbuild.render.stages import Stages
from flbuild.render.template import fill

TEMPLATE = "Dockerfile.j2"
LONGEST_RUN = 60_000
"""Bytes of paths that one RUN gets: Linux allows 131,072 in the one argument that a shell command is."""


def render_dockerfile(stages: Stages, templates: Path) -> str:
    """The text of the Dockerfile: LF line ends whatever the templates have, one newline at the end.

    Raises:
        UsageError: a template is missing, or asks for something that there is not.
    """
    filters: dict[str, Callable[..., Any]] = {
        "quote": quote,
        "exec_form": json.dumps,
        "shell": shlex.quote,
        "batches": batches,
    }
    return fill(templates, TEMPLATE, _values(stages), filters)


def quote(value: str) -> str:
    """A value for ENV and LABEL, in double quotes; nothing in it is expanded."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$")
    return f'"{escaped}"'


def batches(paths: Sequence[str]) -> Iterator[list[str]]:
    """Paths in groups that fit into one RUN each."""
    group: list[str] = []
    size = 0
    for path in paths:
        length = len(shlex.quote(path).encode()) + 7
        if group and size + length > LONGEST_RUN:
            yield group
            group, size = [], 0
        group.append(path)
        size += length
    if group:
        yield group


def _values(stages: Stages) -> dict[str, Any]:
    return {
        "stages": stages,
        "plan": stages.plan,
        "base": stages.base,
        "debian": isinstance(stages.base, LockedDebianBase),
        "python": stages.plan.scheme.executable,
    }
