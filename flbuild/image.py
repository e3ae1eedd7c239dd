"""The main job: recipe, lock and plugin to an image, and the image to the lock's record."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from flbuild.base.source import BaseSource
from flbuild.build.model import Blob, BuiltImage, CacheOptions
from flbuild.builders import PlanInputs, make_builder
from flbuild.errors import BaseMovedError, LockStaleError, UsageError
from flbuild.lock.check import stale
from flbuild.lock.entry import Options
from flbuild.lock.io import read_lock, update_lock
from flbuild.lock.model import Lock, LockedImage, Output, PluginRecord
from flbuild.lock.plugin import plugin_requirements
from flbuild.lock.services import make_services
from flbuild.lock.update import lock_images
from flbuild.plan.make import make_plan, with_plugin
from flbuild.plan.model import Plan
from flbuild.progress import Progress
from flbuild.project import Project
from flbuild.recipe.load import load_recipe
from flbuild.recipe.model import Recipe
from flbuild.registry.client import RegistryClient
from flbuild.registry.credentials import Credentials
from flbuild.registry.reference import Reference
from flbuild.render.make import Renderer
from flbuild.settings import Settings
from flbuild.wheel.builder import WheelBuilder
from flbuild.wheel.model import BuiltWheel, PluginFacts
from flbuild.wheel.plugin import build_plugin, plugin_facts


@dataclass(frozen=True)
class Inputs:
    """A recipe and its lock entry, known to agree."""

    recipe: Recipe
    lock: Lock
    locked: LockedImage


@dataclass(frozen=True)
class Request:
    """What is to be built.

    Args:
        commit: of the plugin.
        refresh_base: lock the base again if Debian's archive has moved on, instead of failing.
        require_tag: fail unless a version tag is reachable from the commit.
        cache: for builders of Dockerfiles.
    """

    name: str
    target: str = "release"
    builder: str = "oci"
    commit: str = "HEAD"
    refresh_base: bool = False
    require_tag: bool = False
    offline: bool = False
    cache: CacheOptions = field(default_factory=CacheOptions)


@dataclass(frozen=True)
class Made:
    """An image with the plan it was made from and the plugin in it."""

    image: BuiltImage
    plan: Plan
    facts: PluginFacts
    plugin: BuiltWheel
    builder: str


def load_inputs(project: Project, name: str) -> Inputs:
    """Read a recipe and its lock entry.

    Raises:
        RecipeError: the recipe is invalid.
        LockStaleError: the entry is missing, or disagrees with the recipe.
    """
    recipe = load_recipe(project.recipe_path(name))
    lock = read_lock(project.lock_path)
    disagreements = stale(recipe, lock, plugin_requirements(project.root, recipe))
    if disagreements:
        raise LockStaleError(
            f"images.lock does not agree with recipes/{name}.yaml:\n"
            + "\n".join(f"  {line}" for line in disagreements),
            remedy=f"flbuild lock {name}",
        )
    return Inputs(recipe, lock, lock.images[name])


def make_image(
    project: Project, settings: Settings, progress: Progress, client: RegistryClient, request: Request
) -> Made:
    """Build an image; nothing is written but the cache, and images.lock if the base had to be locked again.

    Raises:
        FlbuildError: by class; see `docs/exit-codes.md`.
    """
    try:
        return _attempt(project, settings, progress, client, request)
    except BaseMovedError as error:
        if not request.refresh_base:
            raise error.of(request.name) from None
        progress.warn(f"{error.what}\nthe base of {request.name} is locked again, as it is now")
        services = make_services(settings, progress, offline=request.offline)
        lock_images(project, [request.name], Options(refresh_base=True), services)
        return _attempt(project, settings, progress, client, request)


def _attempt(
    project: Project, settings: Settings, progress: Progress, client: RegistryClient, request: Request
) -> Made:
    inputs = load_inputs(project, request.name)
    _refuse_unresolved(inputs)
    bases = BaseSource(settings, progress, client, inputs.recipe.platform, offline=request.offline)
    credentials = Credentials(settings, progress, os.environ)
    builder = make_builder(request.builder, settings, credentials, bases, request.cache)
    builder.check()
    services = make_services(settings, progress, offline=request.offline)
    wheels = WheelBuilder(settings.cache_dir, services.store, services.git, progress)
    recipe, tools = inputs.recipe, inputs.lock.build_tools
    facts = plugin_facts(project.root, recipe.plugin, request.commit)
    plan = make_plan(recipe, inputs.locked, request.target, facts)
    # The base first: if Debian's archive has moved on, nothing else is worth waiting for.
    builder.prepare(plan)
    plugin = build_plugin(
        project.root,
        recipe.plugin,
        facts,
        wheels,
        tools,
        progress,
        require_tag=request.require_tag,
    )
    plan = with_plugin(plan, plugin)
    renderer = Renderer(project, settings, progress, offline=request.offline)
    given = PlanInputs(
        recipe, inputs.lock, request.target, request.commit, plugin, services.store, wheels, renderer
    )
    image = builder.build(plan, given, progress)
    return Made(image, plan, facts, plugin, builder.name)


def record(project: Project, made: Made, reference: Reference | None) -> None:
    """Write what was built into images.lock, in one step.

    A published image keeps its entry for good. One that is not published replaces the last such one of its
    target and builder, so that working on the plugin does not fill the lock.
    """
    image = made.image
    output = Output(
        target=made.plan.target,
        reference=str(reference) if reference else None,
        manifest=image.manifest_digest,
        config=image.config_digest,
        layers=tuple(layer.digest for layer in image.layers),
        diff_ids=tuple(layer.diff_id for layer in image.layers),
        revision=made.plan.revision,
        plugin=PluginRecord(
            version=made.plugin.version,
            filename=made.plugin.filename,
            sha256=made.plugin.sha256,
            archive_sha256=made.facts.archive_sha256,
        ),
        builder=made.builder,
        created=made.plan.config.created,
    )

    def change(lock: Lock) -> Lock:
        entry = lock.images[made.plan.name]
        outputs = (*_kept(entry.outputs, output), output)
        images = {**lock.images, made.plan.name: entry.model_copy(update={"outputs": outputs})}
        return lock.model_copy(update={"images": images})

    update_lock(project.lock_path, change)


def published(project: Project) -> dict[str, list[Reference]]:
    """Where the lock says that layers were pushed to, by digest, the latest last."""
    places: dict[str, list[Reference]] = {}
    for entry in read_lock(project.lock_path).images.values():
        for output in entry.outputs:
            if output.reference is not None:
                for digest in output.layers:
                    places.setdefault(digest, []).append(Reference.parse(output.reference))
    return places


class BlobFetcher:
    """Writes a layer of the base to a file; called with the layer and the file's path."""

    def __init__(self, client: RegistryClient, reference: str | None, progress: Progress) -> None:
        self._client = client
        self._reference = reference
        self._progress = progress

    def __call__(self, layer: Blob, path: Path) -> None:
        if self._reference is None:
            raise UsageError(f"layer {layer.digest} is in no registry")
        with self._progress.task(f"fetch layer {layer.digest[7:19]} of the base", layer.size) as task:
            self._client.save_blob(Reference.parse(self._reference), layer.digest, path)
            task.advance(layer.size)


def _kept(outputs: Iterable[Output], new: Output) -> tuple[Output, ...]:
    def replaced(old: Output) -> bool:
        if (old.target, old.builder) != (new.target, new.builder):
            return False
        return old.reference is None or (old.reference, old.manifest) == (new.reference, new.manifest)

    return tuple(old for old in outputs if not replaced(old))


def _refuse_unresolved(inputs: Inputs) -> None:
    missing = inputs.locked.unresolved
    if missing:
        lines = "\n".join(f"  {item.name} {item.version} ({item.source}): {item.reason}" for item in missing)
        raise LockStaleError(
            f"{inputs.recipe.name} cannot be built, its lock entry holds unresolved inputs:\n{lines}",
            cause="it was locked with --allow-missing",
            remedy=f"make these places reachable (flbuild.toml), then flbuild lock {inputs.recipe.name}",
        )
