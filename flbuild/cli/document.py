"""`flbuild document`: the page that tells people about an image."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flbuild.cli.context import open_context, print_json, print_result
from flbuild.document.facts import gather
from flbuild.document.page import write_page
from flbuild.errors import LockStaleError
from flbuild.files import write_atomic
from flbuild.image import load_inputs


def document(
    name: Annotated[str, typer.Argument(help="Recipe to write about.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="FILE", help="The page; docs/images/NAME.md by default."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Only compare with the page; exit 3 if it differs.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Write the page about an image from its recipe and lock, or check that it is current."""
    context = open_context()
    inputs = load_inputs(context.project, name)
    page = output or context.project.root / "docs" / "images" / f"{name}.md"
    text = write_page(gather(inputs.recipe, inputs.locked), context.project.templates)
    current = page.is_file() and page.read_text(encoding="utf-8") == text
    if check and not current:
        option = f" --output {output}" if output else ""
        raise LockStaleError(
            f"{page} is not what recipe and lock of {name} say now",
            cause="recipe, lock or templates/image.md.j2 changed, or somebody edited it",
            remedy=f"flbuild document {name}{option}",
        )
    if not current:
        write_atomic(page, text.encode())
    if as_json:
        print_json({"page": str(page), "changed": not current})
    else:
        print_result(str(page))
