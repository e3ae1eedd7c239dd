"""Which wheels share a layer: what changes together stays together, and what changes most is last."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from flbuild.errors import LockStaleError
from flbuild.lock.model import BaseDistribution, LockedFile, LockedImage, LockedSource
from flbuild.plan.model import PlannedLayer, PlannedWheel
from flbuild.recipe.model import Recipe
from flbuild.wheel.model import PluginFacts

LARGE = 100_000_000
"""Bytes from which a wheel has a layer of its own: a push of anything else must not send it again."""

VLLM = "vllm"
_NAMES_SHOWN = 6


def make_layers(
    recipe: Recipe, locked: LockedImage, target: str, plugin: PluginFacts
) -> tuple[PlannedLayer, ...]:
    """The layers of one target, lowest first; a layer without content is left out.

    Raises:
        LockStaleError: the lock does not list the files of something that leaves the base.
    """
    pinned = {package.name for package in recipe.packages}
    wheels = [_indexed(file, requested=file.name in pinned) for file in locked.packages]
    wheels += [_built(source) for source in locked.sources]
    extras = [_indexed(file, requested=False) for file in locked.targets.get(target, ())]
    own = _plugin(plugin)
    layers = [
        _remove(recipe, locked, {wheel.name for wheel in (*wheels, *extras, own)}),
        *_large(wheel for wheel in (*wheels, *extras) if _is_large(wheel)),
        *_shared([wheel for wheel in wheels if not _is_large(wheel)]),
        _extras(target, [wheel for wheel in extras if not _is_large(wheel)]),
        PlannedLayer("plugin", "wheels", f"{_built_from(plugin)}; it changes most, so it is last", (own,)),
    ]
    return tuple(layer for layer in layers if layer.wheels or layer.whiteouts)


def _indexed(file: LockedFile, *, requested: bool) -> PlannedWheel:
    return PlannedWheel(
        file.name, file.version, file.filename, file.sha256, file.size, "index", file.index, requested
    )


def _built(source: LockedSource) -> PlannedWheel:
    return PlannedWheel(
        source.name, source.version, source.filename, source.sha256, source.size, "source", requested=True
    )


def _plugin(plugin: PluginFacts) -> PlannedWheel:
    return PlannedWheel(plugin.name, plugin.version, plugin.filename, None, None, "plugin", requested=True)


def _built_from(plugin: PluginFacts) -> str:
    return f"built from {'commit ' + plugin.revision[:12] if plugin.revision else 'a copy without a commit'}"


def _is_large(wheel: PlannedWheel) -> bool:
    return (wheel.size or 0) >= LARGE


def _large(wheels: Iterable[PlannedWheel]) -> Iterator[PlannedLayer]:
    for wheel in sorted(wheels, key=lambda wheel: wheel.name):
        yield PlannedLayer(
            wheel.name, "wheels", f"{wheel.version}; large, so it moves alone and only with its pin", (wheel,)
        )


def _shared(wheels: list[PlannedWheel]) -> Iterator[PlannedLayer]:
    dependencies = tuple(wheel for wheel in wheels if not wheel.requested and wheel.name != VLLM)
    pinned = tuple(wheel for wheel in wheels if wheel.requested and wheel.name != VLLM)
    vllm = tuple(wheel for wheel in wheels if wheel.name == VLLM)
    plural = "" if len(dependencies) == 1 else "s"
    reason = f"{len(dependencies)} distribution{plural} that others require"
    yield PlannedLayer("dependencies", "wheels", reason, dependencies)
    yield PlannedLayer("packages", "wheels", f"pinned by the recipe: {_names(pinned)}", pinned)
    for wheel in vllm:
        origin = "built here from its sources" if wheel.origin == "source" else "as published"
        yield PlannedLayer(VLLM, "wheels", f"{wheel.version}, {origin}", vllm)


def _extras(target: str, wheels: list[PlannedWheel]) -> PlannedLayer:
    return PlannedLayer(
        f"target-{target}", "wheels", f"what target '{target}' adds: {_names(wheels)}", tuple(wheels)
    )


def _remove(recipe: Recipe, locked: LockedImage, installed: set[str]) -> PlannedLayer:
    """Whiteouts for what the recipe removes, and for what the layers above bring in another version."""
    inventory = locked.base.inventory if locked.base is not None else ()
    leaving = [item for item in inventory if item.name in recipe.base.remove or item.name in installed]
    _require_files(recipe, leaving)
    removed = sorted({item.name for item in leaving} & set(recipe.base.remove))
    replaced = sorted({item.name for item in leaving} - set(removed))
    reasons = [f"out of the base: {', '.join(removed)}"] if removed else []
    reasons += [f"replaced above: {', '.join(replaced)}"] if replaced else []
    paths = {path for item in leaving for path in item.files}
    return PlannedLayer("remove", "remove", "; ".join(reasons), whiteouts=tuple(sorted(paths)))


def _require_files(recipe: Recipe, leaving: Iterable[BaseDistribution]) -> None:
    unlisted = sorted(item.name for item in leaving if not item.files)
    if unlisted:
        raise LockStaleError(
            f"the lock does not list the files of {', '.join(unlisted)}, which have to leave the base",
            remedy=f"flbuild lock {recipe.name}",
        )


def _names(wheels: Iterable[PlannedWheel]) -> str:
    names = sorted(wheel.name for wheel in wheels)
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return ", ".join(names[:_NAMES_SHOWN]) + more
