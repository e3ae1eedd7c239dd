"""`flbuild lock`: brings entries up to their recipes, and leaves alone what agrees already."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from flbuild.errors import UsageError
from flbuild.lock.base import lock_base
from flbuild.lock.check import stale
from flbuild.lock.entry import (
    Options,
    Services,
    Tools,
    environment_of,
    files_by_name,
    lock_entry,
    with_inventory,
)
from flbuild.lock.io import read_lock, update_lock
from flbuild.lock.model import Lock, LockedImage
from flbuild.lock.pin import Pinner
from flbuild.lock.plugin import plugin_requirements
from flbuild.lock.seal import EDITED, tools_are_sealed
from flbuild.lock.tools import environment, lock_tools, satisfied, tool_requirements
from flbuild.project import Project
from flbuild.recipe.model import Recipe
from flbuild.recipe.report import load_checked
from flbuild.suggest import perhaps


def lock_images(
    project: Project, names: Iterable[str], options: Options, services: Services, *, dry_run: bool = False
) -> Lock:
    """Lock the named recipes and write `images.lock` in one step; the lock as it is then.

    An entry that agrees with its recipe is not touched, so locking again changes no byte. New build tools
    give new wheels, so they lock every entry anew that is built from source.

    When every recipe is named, entries whose recipe is gone are dropped.

    Args:
        dry_run: give the lock, and write nothing.

    Raises:
        FlbuildError: by class, what could not be found, resolved, built or accepted; nothing is written then.
    """
    wanted = tuple(dict.fromkeys(names))
    recipes = {
        name: load_checked(project.recipe_path(name), services.client.settings, services.progress)
        for name in wanted
    }

    def change(lock: Lock) -> Lock:
        return _locked(project, recipes, lock, options, services)

    if dry_run:
        return change(read_lock(project.lock_path))
    return update_lock(project.lock_path, change)


def _locked(
    project: Project, recipes: dict[str, Recipe], lock: Lock, options: Options, services: Services
) -> Lock:
    _refuse_unknown(recipes, lock, options)
    tools = _tools(lock, options, services)
    if tools.changed:
        others = [name for name, image in lock.images.items() if image.sources and name not in recipes]
        settings = services.client.settings
        recipes = {
            **recipes,
            **{
                name: load_checked(project.recipe_path(name), settings, services.progress)
                for name in others
                if name in project.recipe_names()
            },
        }
    images = dict(lock.images)
    for name, recipe in recipes.items():
        requires = plugin_requirements(project.root, recipe)
        held = replace(options, upgrade=options.upgrade & _known(lock, name))
        images[name] = _entry(recipe, lock, requires, tools, services, held)
    if set(project.recipe_names()) <= set(recipes):
        images = {name: image for name, image in images.items() if name in recipes}
    seal = None if tools.changed or not tools_are_sealed(lock) else lock.build_tools_seal
    return Lock(build_tools_seal=seal, build_tools=tools.files, images=images)


def _entry(
    recipe: Recipe,
    lock: Lock,
    requires: tuple[str, ...],
    tools: Tools,
    services: Services,
    options: Options,
) -> LockedImage:
    old = lock.images.get(recipe.name)
    rebuild = tools.changed and old is not None and bool(old.sources)
    if old is not None and not rebuild and not options.upgrade and not stale(recipe, lock, requires):
        if options.refresh_base and (refreshed := _with_new_base(recipe, old, services, options)):
            return refreshed
        if not options.refresh_base and not old.unresolved:
            services.progress.info(f"{recipe.name}: the lock agrees with the recipe")
            return old
    return lock_entry(recipe, old, requires, tools, services, options)


def _with_new_base(
    recipe: Recipe, old: LockedImage, services: Services, options: Options
) -> LockedImage | None:
    """The entry on its base as it is now; None if that base cannot run the locked wheels."""
    result = lock_base(
        recipe,
        old.base,
        services.bases,
        refresh=True,
        allow_kind_change=options.allow_kind_change,
    )
    if result.base is None:
        return None
    place = environment_of(recipe, result, services.progress)
    if any(place.rank(file.filename) is None for file in files_by_name(old).values()):
        return None
    image = old.model_copy(update={"base": result.base, "seal": None})
    return with_inventory(recipe, image, services.bases)


def _tools(lock: Lock, options: Options, services: Services) -> Tools:
    names = {tool.name for tool in lock.build_tools}
    requirements = tool_requirements()
    sealed = tools_are_sealed(lock)
    if satisfied(requirements, lock.build_tools) and sealed and not options.upgrade & names:
        return Tools(lock.build_tools)
    if not sealed:
        services.progress.warn(f"build_tools: {EDITED}; they are looked up again")
    pinner = Pinner(
        services.client,
        services.store,
        environment("3.10"),
        services.progress,
        old={tool.name: tool for tool in lock.build_tools if sealed},
        moving=options.upgrade,
    )
    files = lock_tools(requirements, services.resolver, pinner, old=lock.build_tools, moving=options.upgrade)
    return Tools(files, changed=set(files) != set(lock.build_tools))


def _refuse_unknown(recipes: dict[str, Recipe], lock: Lock, options: Options) -> None:
    known = {tool.name for tool in lock.build_tools}.union(*(_known(lock, name) for name in recipes))
    for name in sorted(options.upgrade):
        if name not in known:
            raise UsageError(
                f"--upgrade {name}: the lock has no such distribution{perhaps(name, known)}",
                remedy="flbuild lock, without --upgrade, takes up what a recipe adds",
            )
        for recipe in recipes.values():
            pinned = [package for package in recipe.packages if package.name == name and package.git is None]
            if pinned and lock.images.get(recipe.name) and (pinned[0].index or "pypi") == "pypi":
                raise UsageError(
                    f"--upgrade {name}: recipes/{recipe.name}.yaml pins {name} {pinned[0].version}",
                    remedy=f"change the version there, then flbuild lock {recipe.name}",
                )


def _known(lock: Lock, name: str) -> set[str]:
    image = lock.images.get(name)
    if image is None:
        return set()
    return {*files_by_name(image), *(source.name for source in image.sources)}
