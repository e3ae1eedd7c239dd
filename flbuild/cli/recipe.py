"""`flbuild recipe`: list, show, check, schema."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
import yaml

from flbuild.cli.context import open_context, print_json, print_result
from flbuild.errors import RecipeError, UsageError
from flbuild.files import write_atomic
from flbuild.project import Project, find_project
from flbuild.recipe import schema as recipe_schema
from flbuild.recipe.load import load_recipe
from flbuild.recipe.report import RecipeReport, report_recipe
from flbuild.recipe.resolve import resolved
from flbuild.verify.checks import CHECKS

app = typer.Typer(help="List, show and check recipes.", no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


@app.command("list")
def list_recipes(as_json: Json = False) -> None:
    """List the project's recipes."""
    project = open_context().project
    recipes = [load_recipe(project.recipe_path(name)) for name in project.recipe_names()]
    if as_json:
        print_json(
            [
                {
                    "name": recipe.name,
                    "platform": recipe.platform,
                    "vllm": recipe.vllm.local_version,
                    "targets": list(recipe.targets),
                    "summary": recipe.summary,
                }
                for recipe in recipes
            ]
        )
        return
    rows = [("name", "platform", "vllm", "targets", "summary")]
    rows += [
        (recipe.name, recipe.platform, recipe.vllm.local_version, ",".join(recipe.targets), recipe.summary)
        for recipe in recipes
    ]
    print_result(_columns(rows))


def _columns(rows: Sequence[Sequence[str]]) -> str:
    """Rows as aligned columns, the same on a terminal and in a pipe."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
    return "\n".join(lines)


@app.command()
def show(name: Annotated[str, typer.Argument(help="Recipe to show.")], as_json: Json = False) -> None:
    """Show a recipe as it is understood: defaults filled in, targets expanded."""
    data = resolved(load_recipe(open_context().project.recipe_path(name)))
    if as_json:
        print_json(data)
    else:
        print_result(yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=100))


@app.command()
def check(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Recipes; all by default.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Check recipes: each file by itself, and what its fields mean together."""
    context = open_context()
    paths = [context.project.recipe_path(name) for name in names or context.project.recipe_names()]
    reports = [report_recipe(path, context.settings, checks=CHECKS) for path in paths]
    if as_json:
        print_json({"recipes": [report.as_json() for report in reports]})
    else:
        print_result("\n".join(line for report in reports for line in report.lines()))
    errors = [error for report in reports for error in report.errors()]
    if errors:
        count = f"{len(errors)} error{'s' if len(errors) > 1 else ''}"
        first = errors[0]
        more = f" (the first of {count})" if len(errors) > 1 else ""
        raise RecipeError(f"{first.place}: {first.text}{more}", remedy=_next_command(reports))


def _next_command(reports: list[RecipeReport]) -> str:
    failed = " ".join(report.path.stem for report in reports if report.errors())
    return f"edit the file, then: flbuild recipe check {failed}"


@app.command()
def schema(
    check_only: Annotated[
        bool, typer.Option("--check", help="Fail when the committed schema is not the current one.")
    ] = False,
    write: Annotated[bool, typer.Option("--write", help="Write recipes/recipe.schema.json.")] = False,
) -> None:
    """Print the JSON Schema of recipes."""
    text = recipe_schema.schema_text()
    if check_only and write:
        raise UsageError("--check and --write exclude each other")
    if not (check_only or write):
        print_result(text)
        return
    path = _schema_path(find_project(Path.cwd()))
    if write:
        write_atomic(path, text)
    elif not path.is_file() or path.read_text(encoding="utf-8") != text:
        raise RecipeError(
            f"{path} is not the current schema",
            cause="the recipe model changed after the file was written",
            remedy="flbuild recipe schema --write",
        )
    print_result(str(path))


def _schema_path(project: Project) -> Path:
    return project.recipes / recipe_schema.FILE_NAME
