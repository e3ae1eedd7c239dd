"""`flbuild verify`: digest, lock, image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from flbuild.cli.context import open_context, print_json, print_result
from flbuild.errors import VerificationError
from flbuild.finding import Finding
from flbuild.index.client import IndexClient
from flbuild.index.store import FileStore
from flbuild.lock.io import read_lock
from flbuild.registry.client import RegistryClient
from flbuild.verify.digest import require_published, verify_published, verify_reference
from flbuild.verify.image import Result, match_image, verify_image
from flbuild.verify.lock import verify_lock
from flbuild.verify.subject import open_subject

app = typer.Typer(help="Prove that what was published is what was locked.", no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


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
        require_published(lock)
        checked = list(verify_published(lock, client))
    if as_json:
        print_json([asdict(item) for item in checked])
    else:
        print_result(
            "\n".join(f"{item.digest}  {item.name}  ({item.recipe} {item.target})" for item in checked)
        )


@app.command("lock")
def lock_file(as_json: Json = False) -> None:
    """Check images.lock by itself: against the recipes, complete, consistent."""
    context = open_context()
    findings = verify_lock(context.project, read_lock(context.project.lock_path))
    _report(findings, "images.lock agrees with the recipes", as_json=as_json)


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
    as_json: Json = False,
) -> None:
    """Check every file and distribution in an image against the lock."""
    context = open_context()
    lock = read_lock(context.project.lock_path)
    client = RegistryClient(context.settings, context.progress)
    platform = lock.images[recipe].platform if recipe in lock.images else None
    subject = open_subject(reference, client, platform)
    match = match_image(subject, lock, recipe, target)
    store = FileStore(context.settings, IndexClient(context.settings, context.progress), context.progress)
    result = verify_image(subject, match, context.project, lock, store, context.progress, fetch=fetch)
    _report(result.findings, _passed(reference, subject.manifest_digest, result), as_json=as_json)


def _passed(reference: str, manifest: str, result: Result) -> str:
    return (
        f"{reference} is {result.match.recipe} {result.match.target} as locked: {manifest}, "
        f"{result.distributions} distributions, {result.files} files, "
        f"{result.read_layers} of {result.all_layers} layers read"
    )


def _report(findings: Sequence[Finding], passed: str, *, as_json: bool) -> None:
    """Print what was found; an error among it ends the command with exit code 8."""
    errors = [finding for finding in findings if finding.severity == "error"]
    if as_json:
        print_json({"passed": not errors, "findings": [asdict(finding) for finding in findings]})
    else:
        lines = [
            f"{finding.severity}: {finding.check}: {finding.subject}: {finding.message}"
            for finding in findings
        ]
        print_result("\n".join([*lines, *([] if errors else [passed])]))
    if errors:
        remedies = list(dict.fromkeys(finding.remedy for finding in errors if finding.remedy))
        raise VerificationError(
            f"{len(errors)} {'check fails' if len(errors) == 1 else 'findings are errors'}",
            remedy="; ".join(remedies[:3]) or None,
        )
