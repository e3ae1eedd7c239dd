"""`flbuild verify`: digest, lock, image."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from flbuild.cli.context import Context, open_context, print_json, print_result
from flbuild.finding import Finding
from flbuild.index.client import IndexClient
from flbuild.index.git import GitStore
from flbuild.index.store import FileStore
from flbuild.lock.io import read_lock
from flbuild.lock.model import Lock
from flbuild.registry.client import RegistryClient
from flbuild.verify.digest import Checked, raise_first, verify_published, verify_reference
from flbuild.verify.image import Result, match_image, platform_of, verify_image
from flbuild.verify.lock import verify_lock
from flbuild.verify.remote import Asked, Remotes, raise_worst, verify_remote
from flbuild.verify.report import as_values, group, lines, looked_at, raise_if_failed
from flbuild.verify.subject import open_subject

app = typer.Typer(help="Prove that what was published is what was locked.", no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]

_COLOURS = {"error": "red", "warning": "yellow", "info": "dim"}


@app.command()
def digest(
    reference: Annotated[
        str | None,
        typer.Argument(metavar="[REF]", help="A reference or oci:FOLDER; every published image by default."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Compare manifest digests with the lock: moved, gone and unreachable are different errors."""
    context = open_context()
    lock = read_lock(context.project.lock_path)
    client = RegistryClient(context.settings, context.progress)
    if reference is not None:
        checked = [verify_reference(reference, lock, client)]
    else:
        checked = list(verify_published(lock, client))
    if as_json:
        print_json([_checked_values(item) for item in checked])
    else:
        print_result("\n".join(_checked_line(item) for item in checked))
    raise_first(checked)


@app.command("lock")
def lock_file(
    remote: Annotated[
        bool,
        typer.Option("--remote", help="Ask registries, indexes and git hosts too: moved, gone, unreachable."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Check images.lock by itself: against the recipes, complete, consistent."""
    context = open_context()
    lock = read_lock(context.project.lock_path)
    if remote:
        _ask_remotes(context, lock, as_json=as_json)
        return
    findings = verify_lock(context.project, lock)
    if as_json:
        print_json(as_values(findings))
    else:
        _show(findings, "images.lock agrees with the recipes")
    raise_if_failed(findings)


@app.command()
def image(
    reference: Annotated[str, typer.Argument(metavar="REF", help="A reference or oci:FOLDER.")],
    recipe: Annotated[
        str | None, typer.Option("--recipe", help="Of which recipe, if digest and title do not tell.")
    ] = None,
    target: Annotated[str | None, typer.Option("--target", help="Which variant.")] = None,
    fetch: Annotated[
        bool, typer.Option("--fetch", help="Get locked wheels that are missing here, to compare them too.")
    ] = False,
    run: Annotated[
        bool,
        typer.Option("--run", help="Start a container too: imports, the plugin in vLLM, pip check."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Check every file and distribution in an image against the lock."""
    context = open_context()
    lock = read_lock(context.project.lock_path)
    client = RegistryClient(context.settings, context.progress)
    subject = open_subject(reference, client, platform_of(reference, lock, recipe))
    match = match_image(subject, lock, recipe, target)
    store = FileStore(context.settings, IndexClient(context.settings, context.progress), context.progress)
    result = verify_image(
        subject, match, context.project, lock, store, context.progress, fetch=fetch, run=run
    )
    if as_json:
        print_json(as_values(result.findings, **looked_at(subject, result)))
    else:
        context.progress.info(_read(result))
        _show(
            result.findings,
            f"{reference} is {match.recipe} {match.target} as locked: {subject.manifest_digest}",
        )
    raise_if_failed(result.findings)


def _ask_remotes(context: Context, lock: Lock, *, as_json: bool) -> None:
    settings, progress = context.settings, context.progress
    remotes = Remotes(RegistryClient(settings, progress), GitStore(settings), IndexClient(settings, progress))
    asked = list(verify_remote(lock, remotes, settings.jobs))
    if as_json:
        print_json([_asked_values(item) for item in asked])
    elif not any(item.error for item in asked):
        print_result(f"{len(asked)} inputs of images.lock are as they were locked")
    raise_worst(asked)


def _asked_values(item: Asked) -> dict[str, Any]:
    values: dict[str, Any] = {"input": item.input, "images": item.images, "passed": item.error is None}
    if item.error is not None:
        values |= {"exit_code": item.error.exit_code, "error": str(item.error)}
    return values


def _checked_line(item: Checked) -> str:
    state = "ok" if item.error is None else "FAILED"
    return f"{item.digest}  {item.name}  ({item.recipe} {item.target})  {state}"


def _checked_values(item: Checked) -> dict[str, Any]:
    values: dict[str, Any] = {
        "name": item.name,
        "recipe": item.recipe,
        "target": item.target,
        "digest": item.digest,
        "kind": item.kind,
        "passed": item.error is None,
    }
    if item.error is not None:
        values |= {"exit_code": item.error.exit_code, "error": str(item.error)}
    return values


def _read(result: Result) -> str:
    return (
        f"read {result.read_layers} of {result.all_layers} layers ({decimal(result.read_bytes)}): "
        f"{result.files} files, {result.distributions} distributions"
    )


def _show(findings: Sequence[Finding], passed: str) -> None:
    """Findings as a table on a terminal, as plain lines elsewhere; `passed` when none of them is an error."""
    verdict = [] if any(finding.severity == "error" for finding in findings) else [passed]
    if not sys.stdout.isatty():
        print_result("\n".join([*lines(findings), *verdict]))
        return
    console = Console()
    for check, items in group(findings).items():
        table = Table(title=check, title_justify="left", show_header=False, box=None, pad_edge=False)
        for item in items:
            severity = Text(item.severity, style=_COLOURS[item.severity])
            table.add_row(severity, Text(item.subject), Text(item.message))
        console.print(table)
    for line in verdict:
        console.print(line, markup=False)
