"""The page in Markdown, from the project's template."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path

from rich.filesize import decimal

from flbuild.document.facts import Facts
from flbuild.recipe.model import Ci
from flbuild.render.template import fill

TEMPLATE = "image.md.j2"


def write_page(facts: Facts, templates: Path) -> str:
    """The text of the page.

    Raises:
        UsageError: the template is missing or wrong.
    """
    filters: dict[str, Callable[..., str]] = {"cell": cell, "code": code, "size": decimal}
    values = {"facts": facts, "recipe": facts.recipe, "run": list(run_options(facts.recipe.ci))}
    return fill(templates, TEMPLATE, values, filters)


def cell(text: str) -> str:
    """Text for one cell of a table, or for one line."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")


def code(text: str) -> str:
    """Text as it is typed."""
    return f"`{cell(text)}`"


def run_options(ci: Ci) -> list[str]:
    """Options of `docker run`, as continuous integration starts the image, each ready for a shell."""
    return [
        *ci.options,
        *(f"--device {shlex.quote(device)}" for device in ci.devices),
        *(f"--volume {shlex.quote(volume)}" for volume in ci.volumes),
        *_environ(ci.env),
    ]


def _environ(env: Mapping[str, str]) -> list[str]:
    return [f"--env {shlex.quote(f'{name}={value}')}" for name, value in env.items()]
