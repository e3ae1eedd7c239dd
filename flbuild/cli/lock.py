"""`flbuild lock`: pin every input, or check that what is pinned is what the recipes ask for."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from packaging.utils import canonicalize_name

from flbuild.cli.context import Context, open_context, print_json, print_result
from flbuild.errors import LockStaleError, UsageError
from flbuild.lock.check import stale
from flbuild.lock.entry import Options
from flbuild.lock.io import dump_lock, read_lock
from flbuild.lock.model import Lock
from flbuild.lock.plugin import plugin_requirements
from flbuild.lock.services import make_services
from flbuild.lock.tools import satisfied, tool_requirements
from flbuild.lock.update import lock_images
from flbuild.recipe.load import load_recipe


def lock(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Recipes; all of them when none is named.")
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Only say whether the lock agrees with the recipes; exit 3 if not. No network."
        ),
    ] = False,
    upgrade: Annotated[
        list[str] | None,
        typer.Option("--upgrade", metavar="PKG", help="Let this distribution move, and nothing else."),
    ] = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="Ask nothing over the network; use what was seen before.")
    ] = False,
    allow_missing: Annotated[
        bool,
        typer.Option(
            "--allow-missing", help="Record what cannot be reached as unresolved; no build accepts it."
        ),
    ] = False,
    refresh_base: Annotated[
        bool, typer.Option("--refresh-base", help="Look at the base again, although the recipe is the same.")
    ] = False,
    allow_kind_change: Annotated[
        bool,
        typer.Option(
            "--allow-kind-change",
            help="Accept a base that was an image and is an index, or the reverse.",
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the change to images.lock instead of writing it.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Pin every input of the recipes in images.lock; what agrees already is left alone."""
    context = open_context()
    wanted = tuple(names) if names else context.project.recipe_names()
    changing = {
        "--upgrade": bool(upgrade),
        "--allow-missing": allow_missing,
        "--refresh-base": refresh_base,
        "--allow-kind-change": allow_kind_change,
        "--dry-run": dry_run,
    }
    if check:
        if given := [option for option, is_given in changing.items() if is_given]:
            raise UsageError(f"--check changes nothing, so {', '.join(given)} makes no sense with it")
        _check(context, wanted, everything=not names, as_json=as_json)
        return
    options = Options(
        upgrade=frozenset(str(canonicalize_name(name)) for name in upgrade or ()),
        allow_missing=allow_missing,
        refresh_base=refresh_base,
        allow_kind_change=allow_kind_change,
    )
    before = read_lock(context.project.lock_path)
    services = make_services(context.settings, context.progress, offline=offline)
    after = lock_images(context.project, wanted, options, services, dry_run=dry_run)
    if as_json:
        print_json({"changed": dump_lock(before) != dump_lock(after), "images": _summary(after, wanted)})
    elif dry_run:
        print_result(_difference(before, after))
    else:
        _report(context, after, wanted)


def _check(context: Context, names: Sequence[str], *, everything: bool, as_json: bool) -> None:
    found = read_lock(context.project.lock_path)
    differences: dict[str, list[str]] = {}
    for name in names:
        recipe = load_recipe(context.project.recipe_path(name))
        requires = plugin_requirements(context.project.root, recipe)
        differences[name] = stale(recipe, found, requires)
    if everything:
        for name in sorted(set(found.images) - set(names)):
            differences[name] = ["images.lock has an entry, but there is no such recipe"]
        if not satisfied(tool_requirements(), found.build_tools):
            differences["build tools"] = ["the lock does not pin what this flbuild builds wheels with"]
    lines = [f"  {name}: {line}" for name, some in differences.items() for line in some]
    if as_json:
        named = {name: some for name, some in differences.items() if some}
        print_json({"agrees": not lines, "differences": named})
    if lines:
        raise LockStaleError(
            "images.lock does not agree with the recipes:\n" + "\n".join(lines),
            cause="a recipe changed after it was locked, or the lock was edited by hand",
            remedy=f"flbuild lock {' '.join(names) if not everything else ''}".rstrip(),
        )
    for name in names:
        for item in found.images[name].unresolved:
            context.progress.warn(
                f"{name}: {item.name} {item.version} is unresolved: {item.source}, {item.reason}"
            )
    context.progress.info(f"images.lock agrees with {', '.join(names)}")


def _summary(lock: Lock, names: Sequence[str]) -> dict[str, Any]:
    return {
        name: {
            "packages": len(image.packages),
            "sources": [f"{source.name} {source.version}" for source in image.sources],
            "targets": {target: len(files) for target, files in image.targets.items()},
            "unresolved": [item.model_dump() for item in image.unresolved],
        }
        for name, image in lock.images.items()
        if name in names
    }


def _difference(before: Lock, after: Lock) -> str:
    old, new = (dump_lock(lock).splitlines() for lock in (before, after))
    return "\n".join(difflib.unified_diff(old, new, "images.lock", "images.lock", lineterm=""))


def _report(context: Context, lock: Lock, names: Sequence[str]) -> None:
    for name in names:
        image = lock.images[name]
        parts = [f"{len(image.packages)} packages", f"{len(image.sources)} built from source"]
        if image.unresolved:
            parts.append(f"{len(image.unresolved)} unresolved")
        context.progress.info(f"{name}: {', '.join(parts)}")
