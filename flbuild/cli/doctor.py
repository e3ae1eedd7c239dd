"""`flbuild doctor`: what this machine lacks."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from flbuild.cli.context import print_json, print_result
from flbuild.doctor.checks import examine, raise_if_unable
from flbuild.doctor.context import Machine
from flbuild.errors import RecipeError, UsageError
from flbuild.finding import Finding
from flbuild.project import find_project
from flbuild.recipe.load import load_recipe
from flbuild.recipe.model import Recipe
from flbuild.settings import load_settings

_MARKS = {"info": "ok", "warning": "lacks", "error": "FAILS"}


def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False) -> None:
    """Check what flbuild needs of this machine; exit 10 only if images cannot be built here."""
    root, recipes, unreadable = _project()
    findings = [*unreadable, *examine(Machine(load_settings(root, os.environ), recipes))]
    if as_json:
        print_json(
            {
                "able": all(finding.severity != "error" for finding in findings),
                "findings": [asdict(finding) for finding in findings],
            }
        )
    else:
        print_result("\n".join(line for finding in findings for line in _lines(finding)))
    raise_if_unable(findings)


def _project() -> tuple[Path | None, tuple[Recipe, ...], list[Finding]]:
    """The project around the current folder, if there is one; a broken recipe must not stop a doctor."""
    try:
        project = find_project(Path.cwd())
    except UsageError:
        return None, (), []
    recipes, unreadable = [], []
    for name in project.recipe_names():
        try:
            recipes.append(load_recipe(project.recipe_path(name)))
        except RecipeError as error:
            remedy = f"flbuild recipe check {name}"
            unreadable.append(Finding("warning", "recipes", name, error.what, remedy))
    return project.root, tuple(recipes), unreadable


def _lines(finding: Finding) -> list[str]:
    line = f"{_MARKS[finding.severity]:<5}  {finding.check}: {finding.subject}: {finding.message}"
    return [line, *([f"       next: {finding.remedy}"] if finding.remedy else [])]
