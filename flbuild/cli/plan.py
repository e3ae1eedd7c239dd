"""`flbuild plan`: what an image will be made of."""

from __future__ import annotations

from typing import Annotated

import typer

from flbuild.build.oci.assemble import cached_size
from flbuild.builders import DESCRIBED
from flbuild.cli.context import open_context, print_json, print_result
from flbuild.image import load_inputs
from flbuild.index.client import IndexClient
from flbuild.index.git import GitStore
from flbuild.index.store import FileStore
from flbuild.plan.explain import Present, plan_json, plan_lines, report_layers
from flbuild.plan.make import make_plan, with_plugin
from flbuild.plan.model import PlannedLayer, PlannedWheel
from flbuild.wheel.builder import WheelBuilder
from flbuild.wheel.plugin import find_plugin, plugin_facts


def plan(
    name: Annotated[str, typer.Argument(help="Recipe to plan.")],
    target: Annotated[str, typer.Option("--target", help="Variant of the image.")] = "release",
    commit: Annotated[str, typer.Option("--commit", help="Commit of the plugin.")] = "HEAD",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Show base, layers and configuration of an image, without network and without building anything."""
    context = open_context()
    settings, progress = context.settings, context.progress
    inputs = load_inputs(context.project, name)
    facts = plugin_facts(context.project.root, inputs.recipe.plugin, commit)
    made = make_plan(inputs.recipe, inputs.locked, target, facts)
    store = FileStore(settings, IndexClient(settings, progress), progress, offline=True)
    builder = WheelBuilder(settings.cache_dir, store, GitStore(settings, offline=True), progress)
    wheel = find_plugin(context.project.root, inputs.recipe.plugin, facts, builder, inputs.lock.build_tools)
    if wheel is not None:
        made = with_plugin(made, wheel)

    def layer_size(layer: PlannedLayer) -> int | None:
        return cached_size(made, layer, settings.cache_dir)

    def has_file(wheel: PlannedWheel) -> bool:
        return wheel.sha256 is not None and store.find(wheel.sha256, wheel.filename) is not None

    layers = report_layers(made, Present(layer_size, has_file))
    if as_json:
        print_json(plan_json(made, layers, DESCRIBED))
    else:
        print_result("\n".join(plan_lines(made, layers, DESCRIBED)))
