"""`flbuild image`: build an image and put it where it is wanted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from flbuild.build.docker_archive import load_image, write_archive
from flbuild.build.engine import connect
from flbuild.build.model import CacheOptions
from flbuild.build.oci.layout import write_layout
from flbuild.builders import NAMES
from flbuild.cli.context import Context, open_context, print_json, print_result
from flbuild.errors import UsageError
from flbuild.image import BlobFetcher, Made, Request, make_image, published, record
from flbuild.registry.client import RegistryClient
from flbuild.registry.push import PushReport, push_image
from flbuild.registry.reference import Reference

LAYOUT = "oci"
ARCHIVE = "docker-archive"


@dataclass(frozen=True)
class Destination:
    """A local form of an image: a folder in OCI's layout, or a file for `docker load`."""

    form: str
    path: Path

    @classmethod
    def parse(cls, text: str) -> Destination:
        """Read FORM:PATH."""
        form, _, path = text.partition(":")
        if form not in (LAYOUT, ARCHIVE) or not path:
            raise UsageError(
                f"--output {text}: not a destination",
                remedy=f"write it as {LAYOUT}:FOLDER or {ARCHIVE}:FILE",
            )
        return cls(form, Path(path))

    def __str__(self) -> str:
        return f"{self.form}:{self.path}"


def image(
    name: Annotated[str, typer.Argument(help="Recipe to build.")],
    target: Annotated[str, typer.Option("--target", help="Variant of the image.")] = "release",
    output: Annotated[
        str | None,
        typer.Option("--output", metavar="FORM:PATH", help="oci:FOLDER or docker-archive:FILE."),
    ] = None,
    push: Annotated[bool, typer.Option("--push", help="Push to the recipe's repository and tag.")] = False,
    reference: Annotated[
        str | None,
        typer.Option("--reference", metavar="REF", help="Push there instead of where the recipe says."),
    ] = None,
    load: Annotated[bool, typer.Option("--load", help="Load into the Docker engine.")] = False,
    builder: Annotated[
        str,
        typer.Option("--builder", help=f"How to build: {', '.join(NAMES)}. `flbuild plan` compares them."),
    ] = NAMES[0],
    cache_from: Annotated[
        list[str] | None,
        typer.Option("--cache-from", metavar="REF", help="Take cached steps from there (docker, buildah)."),
    ] = None,
    cache_to: Annotated[
        str | None,
        typer.Option("--cache-to", metavar="REF", help="Put cached steps there (docker, buildah)."),
    ] = None,
    commit: Annotated[str, typer.Option("--commit", help="Commit of the plugin.")] = "HEAD",
    require_tag: Annotated[
        bool, typer.Option("--require-tag", help="Fail unless a version tag is reachable from the commit.")
    ] = False,
    refresh_base: Annotated[
        bool,
        typer.Option("--refresh-base", help="Lock the base again if Debian's archive has moved on."),
    ] = False,
    offline: Annotated[bool, typer.Option("--offline", help="Use only what is on this machine.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Build an image. Without --output, --push or --load it becomes the layout oci:build/NAME."""
    destination = Destination.parse(output) if output else None
    pushed = Reference.parse(reference) if reference else None
    context = open_context()
    if destination is None and not (push or pushed or load):
        destination = Destination(LAYOUT, context.project.root / "build" / name)
    client = RegistryClient(context.settings, context.progress, offline=offline)
    if load:
        # Now, and not after minutes of building.
        with connect():
            pass
    cache = CacheOptions(tuple(cache_from or ()), cache_to)
    request = Request(name, target, builder, commit, refresh_base, require_tag, offline, cache)
    made = make_image(context.project, context.settings, context.progress, client, request)
    if pushed is None and push:
        pushed = Reference.parse(f"{made.plan.repository}:{made.plan.tag}")
    if pushed is not None and pushed.tag is None:
        pushed = Reference(pushed.host, pushed.repository, made.plan.tag)
    _deliver(context, client, made, destination, pushed, load=load, as_json=as_json)


def _deliver(
    context: Context,
    client: RegistryClient,
    made: Made,
    destination: Destination | None,
    pushed: Reference | None,
    *,
    load: bool,
    as_json: bool,
) -> None:
    """Put the image everywhere it is wanted, record it, and print where it is, by digest."""
    fetch = BlobFetcher(client, made.image.base_reference, context.progress)
    name = f"{made.plan.repository}:{made.plan.tag}"
    places: list[str] = []
    report: PushReport | None = None
    if destination is not None:
        if destination.form == LAYOUT:
            write_layout(made.image, destination.path, made.plan.tag, fetch)
        else:
            write_archive(made.image, destination.path.absolute(), name, fetch)
        places.append(f"{destination}@{made.image.manifest_digest}")
    if load:
        with context.progress.task(f"load {name} into the Docker engine"):
            places.append(load_image(made.image, name, fetch))
    if pushed is not None:
        report = push_image(client, made.image, pushed, context.progress, published(context.project))
        places.append(str(pushed.at(report.digest)))
    record(context.project, made, pushed)
    if as_json:
        print_json(_summary(made, places, report))
    else:
        print_result("\n".join(places))


def _summary(made: Made, places: list[str], report: PushReport | None) -> dict[str, Any]:
    summary: dict[str, Any] = {
        "places": places,
        "manifest": made.image.manifest_digest,
        "config": made.image.config_digest,
        "layers": [
            {"digest": layer.digest, "diff_id": layer.diff_id, "size": layer.size}
            for layer in made.image.layers
        ],
        "plugin": {
            "version": made.plugin.version,
            "filename": made.plugin.filename,
            "sha256": made.plugin.sha256,
            "revision": made.facts.revision,
        },
    }
    if report is not None:
        summary["push"] = {
            "reference": str(report.reference),
            "sent": report.sent,
            "uploaded": report.uploaded,
            "mounted": report.mounted,
            "existing": report.existing,
        }
    return summary
