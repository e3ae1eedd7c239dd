"""One recipe's check as lines for people and as JSON for tools, each finding with its place in the file."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from flbuild.errors import RecipeError
from flbuild.finding import Finding
from flbuild.progress import Progress
from flbuild.recipe.check import check_recipe
from flbuild.recipe.document import Document, InvalidRecipeError, key_text
from flbuild.recipe.load import LoadedRecipe, load_with_lines
from flbuild.recipe.model import Recipe
from flbuild.settings import Settings


@dataclass(frozen=True)
class PlacedFinding:
    """A finding and the line it is about."""

    finding: Finding
    place: str
    line: int

    @property
    def text(self) -> str:
        """The finding in one line, without its place."""
        subject = f"{self.finding.subject}: " if self.finding.subject else ""
        remedy = f" ({self.finding.remedy})" if self.finding.remedy else ""
        return f"{subject}{self.finding.message}{remedy}"


@dataclass(frozen=True)
class RecipeReport:
    """All findings of one recipe, in the order of their lines."""

    path: Path
    shown: str
    findings: tuple[PlacedFinding, ...]

    def errors(self) -> list[PlacedFinding]:
        """The findings that fail the check."""
        return [placed for placed in self.findings if placed.finding.severity == "error"]

    def lines(self) -> list[str]:
        """One line per finding, or one that says all is well."""
        if not self.findings:
            return [f"{self.shown}: ok"]
        return [f"{placed.place}: {placed.finding.severity}: {placed.text}" for placed in self.findings]

    def as_json(self) -> dict[str, Any]:
        """Plain values for `--json`."""
        return {
            "name": self.path.stem,
            "path": self.shown,
            "ok": not self.errors(),
            "findings": [
                {
                    "severity": placed.finding.severity,
                    "check": placed.finding.check,
                    "subject": placed.finding.subject,
                    "line": placed.line,
                    "message": placed.finding.message,
                    "remedy": placed.finding.remedy,
                }
                for placed in self.findings
            ],
        }


def report_recipe(
    path: Path, settings: Settings, *, checks: Collection[str] | None = None, today: date | None = None
) -> RecipeReport:
    """Load and check the recipe at `path`; mistakes in the file are findings too, not exceptions."""
    try:
        loaded = load_with_lines(path)
    except InvalidRecipeError as error:
        placed = [
            _placed(
                error.document, Finding("error", "file", key_text(problem.key), problem.text), problem.line
            )
            for problem in error.problems
        ]
        return RecipeReport(path, error.document.shown, tuple(placed))
    findings = _check(loaded, settings, checks=checks, today=today)
    return RecipeReport(path, loaded.document.shown, findings)


def load_checked(path: Path, settings: Settings, progress: Progress) -> Recipe:
    """The recipe at `path` for a command that acts on it: warnings are shown, errors stop the command.

    Raises:
        RecipeError: the file is invalid, or its fields contradict each other.
    """
    loaded = load_with_lines(path)
    report = RecipeReport(path, loaded.document.shown, _check(loaded, settings))
    if errors := report.errors():
        raise RecipeError(
            "\n".join(f"{placed.place}: {placed.text}" for placed in errors),
            remedy=f"edit the file, then: flbuild recipe check {path.stem}",
        )
    for placed in report.findings:
        progress.warn(f"{placed.place}: {placed.text}")
    return loaded.recipe


def _check(
    loaded: LoadedRecipe,
    settings: Settings,
    *,
    checks: Collection[str] | None = None,
    today: date | None = None,
) -> tuple[PlacedFinding, ...]:
    findings = check_recipe(loaded.recipe, indexes=settings.indexes, checks=checks, today=today)
    placed = [_placed(loaded.document, finding) for finding in findings]
    return tuple(sorted(placed, key=lambda item: item.line))


def _placed(document: Document, finding: Finding, line: int | None = None) -> PlacedFinding:
    number = document.line(document.find(finding.subject)) if line is None else line
    return PlacedFinding(finding, f"{document.shown}:{number}", number)
