"""The project's own templates, filled in."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, TemplateError, TemplateNotFound

from flbuild.errors import UsageError


def fill(
    templates: Path, name: str, values: Mapping[str, Any], filters: Mapping[str, Callable[..., Any]]
) -> str:
    """The text of a template: LF line ends whatever it has, no trailing blanks, one newline at the end.

    Raises:
        UsageError: a template is missing, or asks for something that there is not.
    """
    environment = Environment(
        loader=FileSystemLoader(templates),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - nothing here is HTML; the filters are what escapes
    )
    environment.filters |= filters
    try:
        text = environment.get_template(name).render(values)
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
