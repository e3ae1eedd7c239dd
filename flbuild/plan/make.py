"""From a recipe and its lock entry to a plan. Pure: no file, network or clock is asked."""

from __future__ import annotations

import posixpath
from dataclasses import replace
from datetime import datetime, timezone

from flbuild.lock.model import LockedImage, LockedImageBase
from flbuild.plan.layers import make_layers
from flbuild.plan.model import InstallScheme, Plan, PlannedConfig, PlannedLayer, PlannedUnresolved
from flbuild.plan.tag import expand_tag
from flbuild.recipe.model import DebianBase, Recipe
from flbuild.recipe.targets import expand_target
from flbuild.wheel.model import BuiltWheel, PluginFacts

_OCI = "org.opencontainers.image"


def make_plan(recipe: Recipe, locked: LockedImage, target: str, plugin: PluginFacts) -> Plan:
    """Everything a builder does for one target of a recipe.

    The plugin's wheel has no hash yet; `with_plugin` adds it once the wheel is built.

    Raises:
        UsageError: the recipe has no such target.
        LockStaleError: the lock does not list the files of something that leaves the base.
    """
    expand_target(recipe, target)
    os, _, architecture = recipe.platform.partition("/")
    created = datetime.fromtimestamp(plugin.epoch, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    scheme = _scheme(recipe)
    return Plan(
        name=recipe.name,
        target=target,
        os=os,
        architecture=architecture,
        base=locked.base,
        scheme=scheme,
        layers=make_layers(recipe, locked, target, plugin),
        config=PlannedConfig(
            env=tuple(sorted(recipe.env.items())),
            labels=_labels(recipe, locked, target, plugin, created),
            entrypoint=recipe.entrypoint,
            cmd=recipe.cmd,
            workdir=recipe.workdir,
            created=created,
        ),
        epoch=plugin.epoch,
        revision=plugin.revision or "",
        repository=recipe.image.repository,
        tag=expand_tag(recipe, target, plugin),
        notes=_notes(recipe, scheme),
        unresolved=tuple(
            PlannedUnresolved(f"{item.name} {item.version}", f"{item.source}: {item.reason}")
            for item in locked.unresolved
        ),
    )


def with_plugin(plan: Plan, wheel: BuiltWheel) -> Plan:
    """The plan with the hash and size of the plugin's built wheel."""

    def complete(layer: PlannedLayer) -> PlannedLayer:
        wheels = tuple(
            replace(item, filename=wheel.filename, sha256=wheel.sha256, size=wheel.size)
            if item.origin == "plugin"
            else item
            for item in layer.wheels
        )
        return replace(layer, wheels=wheels)

    return replace(plan, layers=tuple(complete(layer) for layer in plan.layers))


def _scheme(recipe: Recipe) -> InstallScheme:
    """Python's own "posix_prefix" layout around the recipe's folders (documentation of `sysconfig`)."""
    python = recipe.python
    prefix = posixpath.dirname(python.scripts)
    return InstallScheme(
        python_version=python.version,
        executable=python.executable,
        site_packages=python.site_packages,
        scripts=python.scripts,
        data=prefix,
        headers=f"{prefix}/include/python{python.version}",
        # Only a base that was made here has its file system here, and so an interpreter that can run.
        bytecode=python.bytecode and isinstance(recipe.base, DebianBase),
    )


def _notes(recipe: Recipe, scheme: InstallScheme) -> tuple[str, ...]:
    if scheme.bytecode:
        return ()
    if recipe.python.bytecode:
        return ("no byte-code: the interpreter is inside a registry base, which is not downloaded",)
    return ("no byte-code: the recipe turns it off",)


def _labels(
    recipe: Recipe, locked: LockedImage, target: str, plugin: PluginFacts, created: str
) -> tuple[tuple[str, str], ...]:
    """OCI's predefined annotation keys; nothing of the machine or of the moment."""
    labels = {
        "title": f"{plugin.name} {recipe.name} {target}",
        "version": plugin.version,
        "revision": plugin.revision,
        "source": plugin.source,
        "created": created,
    }
    if isinstance(locked.base, LockedImageBase):
        labels |= {"base.name": locked.base.reference, "base.digest": locked.base.digest}
    return tuple(sorted((f"{_OCI}.{key}", value) for key, value in labels.items() if value))
