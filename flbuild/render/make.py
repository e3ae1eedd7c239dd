"""From a recipe and its lock to the files of a rendering."""

from __future__ import annotations

from flbuild.base.debian import DebianBases
from flbuild.lock.model import Lock
from flbuild.lock.services import make_services
from flbuild.plan.make import make_plan, with_plugin
from flbuild.progress import Progress
from flbuild.project import Project
from flbuild.recipe.model import Recipe
from flbuild.recipe.targets import expand_target
from flbuild.render.context import context_texts
from flbuild.render.dockerfile import render_dockerfile
from flbuild.render.stages import Blueprint, Stages, make_stages, refuse_unresolved
from flbuild.render.supply import Supply
from flbuild.settings import Settings
from flbuild.wheel.builder import WheelBuilder
from flbuild.wheel.model import BuiltWheel
from flbuild.wheel.plugin import build_plugin, plugin_facts


class Renderer:
    """Renders the recipes of one project.

    Args:
        offline: use only what is on this machine.
    """

    def __init__(
        self, project: Project, settings: Settings, progress: Progress, *, offline: bool = False
    ) -> None:
        self._project = project
        self._settings = settings
        self._progress = progress
        self._services = make_services(settings, progress, offline=offline)
        self._wheels = WheelBuilder(settings.cache_dir, self._services.store, self._services.git, progress)

    def stages(
        self,
        recipe: Recipe,
        lock: Lock,
        target: str | None = None,
        commit: str = "HEAD",
        plugin: BuiltWheel | None = None,
    ) -> Stages:
        """The stages of every target, or of one; the plugin is built, because its hash is in them.

        Args:
            plugin: the wheel of that commit, if it is built already.

        Raises:
            LockStaleError: inputs are unresolved.
            UsageError: the recipe has no such target.
        """
        if target is not None:
            expand_target(recipe, target)
        locked = lock.images[recipe.name]
        facts = plugin_facts(self._project.root, recipe.plugin, commit)
        plans = [make_plan(recipe, locked, name, facts) for name in recipe.targets]
        refuse_unresolved(plans[0])
        plugin = plugin or build_plugin(
            self._project.root,
            recipe.plugin,
            facts,
            self._wheels,
            lock.build_tools,
            self._progress,
        )
        return make_stages(
            Blueprint(
                plans=tuple(with_plugin(plan, plugin) for plan in plans),
                sources=locked.sources,
                tools=lock.build_tools,
                targets=tuple(recipe.targets) if target is None else (target,),
            )
        )

    def texts(self, stages: Stages) -> dict[str, bytes]:
        """The Dockerfile and the small files beside it."""
        dockerfile = render_dockerfile(stages, self._project.templates)
        return {"Dockerfile": dockerfile.encode(), **context_texts(stages, self._project.templates)}

    def supply(self, platform: str) -> Supply:
        """Where the pinned files come from."""
        bases = DebianBases(self._settings, self._progress)
        return Supply(self._services.store, self._services.git, bases, platform)
