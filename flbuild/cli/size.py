"""`flbuild size`: how large an image is, and whether that is within its budget."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.filesize import decimal

from flbuild.cli.context import open_context, print_json, print_result
from flbuild.lock.io import read_lock
from flbuild.recipe.load import load_recipe
from flbuild.recipe.targets import expand_target
from flbuild.registry.client import RegistryClient
from flbuild.verify.files import read_files
from flbuild.verify.image import match_image, platform_of
from flbuild.verify.size import Sizes, distributions, measure, require_within_budget
from flbuild.verify.subject import open_subject


def size(
    reference: Annotated[str, typer.Argument(metavar="REF", help="A reference or oci:FOLDER.")],
    recipe: Annotated[
        str | None, typer.Option("--recipe", help="Of which recipe, if digest and title do not tell.")
    ] = None,
    target: Annotated[str | None, typer.Option("--target", help="Which variant.")] = None,
    largest: Annotated[
        int, typer.Option("--largest", min=0, help="Read the layers, and list so many distributions.")
    ] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Show the size of an image by layer, and fail if it is over its target's budget."""
    context = open_context()
    lock = read_lock(context.project.lock_path)
    client = RegistryClient(context.settings, context.progress)
    subject = open_subject(reference, client, platform_of(reference, lock, recipe))
    match = match_image(subject, lock, recipe, target)
    wanted = expand_target(load_recipe(context.project.recipe_path(match.recipe)), match.target)
    sizes = measure(subject, lock.images[match.recipe].base, wanted.size_budget)
    found: list[tuple[str, str, int]] = []
    if largest:
        below = [layer.digest for layer in sizes.layers if layer.base]
        found = list(distributions(read_files(subject, below, context.progress)))[:largest]
    if as_json:
        print_json(_values(sizes, found))
    else:
        print_result("\n".join([*_lines(sizes), *_largest(found)]))
    require_within_budget(sizes, reference)


def _values(sizes: Sizes, found: list[tuple[str, str, int]]) -> dict[str, Any]:
    return {
        "layers": [vars(layer) for layer in sizes.layers],
        "above_base": sizes.above,
        "total": sizes.total,
        "budget": sizes.budget,
        "largest": [{"name": name, "version": version, "bytes": count} for name, version, count in found],
    }


def _lines(sizes: Sizes) -> list[str]:
    lines = [
        f"{decimal(layer.size):>12}  {layer.digest}{'  base' if layer.base else ''}" for layer in sizes.layers
    ]
    budget = "no budget" if sizes.budget is None else f"budget {decimal(sizes.budget)}"
    return [
        *lines,
        f"{decimal(sizes.above):>12}  above the base ({budget})",
        f"{decimal(sizes.total):>12}  in all",
    ]


def _largest(found: list[tuple[str, str, int]]) -> list[str]:
    return [f"{decimal(count):>12}  {name} {version}, unpacked" for name, version, count in found]
