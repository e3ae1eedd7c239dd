"""The Dockerfile, from the project's templates."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, TemplateError, TemplateNotFound

from flbuild.errors import UsageError
from flbuild.lock.model import LockedDebianBase
from flbuild.render.stages import Stages

TEMPLATE = "Dockerfile.j2"
LONGEST_RUN = 60_000
"""Bytes of paths that one RUN gets: Linux allows 131,072 in the one argument that a shell command is."""


def render_dockerfile(stages: Stages, templates: Path) -> str:
    """The text of the Dockerfile: LF line ends whatever the templates have, one newline at the end.

    Raises:
        UsageError: a template is missing, or asks for something that there is not.
    """
    environment = Environment(
        loader=FileSystemLoader(templates),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - a Dockerfile is no HTML; `quote` is what escapes here
    )
    environment.filters |= {
        "quote": quote,
        "exec_form": json.dumps,
        "shell": shlex.quote,
        "batches": batches,
    }
    try:
        text = environment.get_template(TEMPLATE).render(_values(stages))
    except TemplateNotFound as error:
        raise UsageError(
            f"{templates} has no {error.name}",
            cause="templates/ belongs to the project, beside recipes/",
            remedy="restore it from version control",
        ) from error
    except TemplateError as error:
        raise UsageError(f"a template in {templates} is wrong", cause=str(error)) from error
    text = "\n".join(line.rstrip() for line in text.splitlines()).strip("\n")
    return re.sub(r"\n{3,}", "\n\n", text) + "\n"


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
