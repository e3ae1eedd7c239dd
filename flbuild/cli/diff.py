"""`flbuild diff`: what differs between two images, recipes or locks."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Annotated

import typer

from flbuild.cli.context import Context, open_context, print_json, print_result
from flbuild.diff.compare import Change, Side, compare
from flbuild.diff.sides import image_side, lock_side, recipe_side
from flbuild.errors import UsageError, VerificationError
from flbuild.lock.io import parse_lock, read_lock
from flbuild.lock.model import Lock
from flbuild.recipe.load import load_recipe
from flbuild.registry.client import RegistryClient
from flbuild.verify.files import read_files
from flbuild.verify.subject import open_subject

RECIPE, LOCK = "recipe:", "lock:"
FILES = "files"


def diff(
    before: Annotated[
        str,
        typer.Argument(
            metavar="A", help="oci:FOLDER or a reference, recipe:NAME, or lock:FILE or lock:REVISION of git."
        ),
    ],
    after: Annotated[str, typer.Argument(metavar="B", help="The same kind of thing.")],
    files: Annotated[
        bool, typer.Option("--files", help="Name every file; they are counted otherwise.")
    ] = False,
    platform: Annotated[str, typer.Option("--platform", help="Which image of an index.")] = "linux/amd64",
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit 8 if anything differs.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Compare packages, files, config, layers and size of images, or what recipes or locks say."""
    if _kind(before) != _kind(after):
        raise UsageError(
            f"{before} and {after} are of different kinds",
            remedy="compare two images, two recipes (recipe:NAME) or two locks (lock:FILE)",
        )
    context = open_context()
    changes = list(compare(_side(before, context, platform), _side(after, context, platform)))
    if as_json:
        print_json([vars(change) | {"kind": change.kind} for change in changes])
    else:
        print_result("\n".join(_lines(changes, files=files)) or "no difference")
    if changes and exit_code:
        raise VerificationError(f"{before} and {after} differ in {len(changes)} points")


def _kind(text: str) -> str:
    return next((prefix for prefix in (RECIPE, LOCK) if text.startswith(prefix)), "image")


def _side(text: str, context: Context, platform: str) -> Side:
    kind = _kind(text)
    if kind == RECIPE:
        return recipe_side(load_recipe(context.project.recipe_path(text.removeprefix(RECIPE))))
    if kind == LOCK:
        return lock_side(_lock(text.removeprefix(LOCK), context.project.root))
    client = RegistryClient(context.settings, context.progress)
    subject = open_subject(text, client, platform)
    return image_side(subject, read_files(subject, (), context.progress))


def _lock(text: str, root: Path) -> Lock:
    """A lock file, or that of a revision.

    Raises:
        UsageError: there is no such file, and no such revision with a lock.
    """
    if Path(text).is_file():
        return read_lock(Path(text))
    shown = subprocess.run(
        ["git", "-C", str(root), "show", "--end-of-options", f"{text}:./images.lock"],
        capture_output=True,
        text=True,
        check=False,
    )
    if shown.returncode:
        raise UsageError(
            f"lock:{text} is neither a file nor a revision with an images.lock",
            remedy="lock:images.lock is the one of this project, lock:HEAD the one that was committed",
        )
    return parse_lock(shown.stdout, Path(f"{text}:images.lock"))


def _lines(changes: list[Change], *, files: bool) -> list[str]:
    lines: list[str] = []
    for section in dict.fromkeys(change.section for change in changes):
        found = [change for change in changes if change.section == section]
        if section == FILES and not files:
            counts = {
                kind: sum(change.kind == kind for change in found) for kind in ("added", "removed", "changed")
            }
            lines.append(
                f"{section}: " + ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
            )
            continue
        lines += [f"{section}:", *(f"  {_line(change)}" for change in found)]
    return lines


def _line(change: Change) -> str:
    if change.before is None:
        return f"+ {change.name} {change.after}"
    if change.after is None:
        return f"- {change.name} {change.before}"
    return f"~ {change.name} {change.before} -> {change.after}"
