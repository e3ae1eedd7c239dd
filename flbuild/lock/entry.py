"""One entry of the lock: from a recipe to every file that its images hold."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from flbuild.errors import RecipeError
from flbuild.index.client import IndexClient
from flbuild.index.git import GitStore
from flbuild.index.store import FileStore
from flbuild.index.tags import Environment
from flbuild.lock.base import ASSUMED_GLIBC, BaseLocker, BaseResult, lacks_files, lock_base, prune
from flbuild.lock.missing import settle_missing
from flbuild.lock.model import LockedFile, LockedImage
from flbuild.lock.named import NamedPins, is_named
from flbuild.lock.pin import Pinner
from flbuild.lock.resolve import INDEX, Question, Resolved, Resolver, pins
from flbuild.lock.seal import EDITED, is_sealed
from flbuild.lock.sources import VLLM, SourceBuilder, Sources, builds_vllm
from flbuild.lock.stub import Fixed
from flbuild.progress import Progress
from flbuild.recipe.canonical import canonical_hash
from flbuild.recipe.model import Recipe
from flbuild.recipe.names import forbidden_by
from flbuild.recipe.targets import expand_target

T = TypeVar("T")


@dataclass(frozen=True)
class Services:
    """What locking reaches the world through."""

    client: IndexClient
    store: FileStore
    git: GitStore
    resolver: Resolver
    bases: BaseLocker
    builder: SourceBuilder
    progress: Progress


@dataclass(frozen=True)
class Options:
    """What the user allows.

    Args:
        upgrade: distributions that may move; everything else keeps its version.
        allow_missing: record what cannot be reached as unresolved, instead of failing.
        refresh_base: look at the base again, although the recipe asks for the same one.
        allow_kind_change: accept that the base's tag names an index where it named an image, or the reverse.
    """

    upgrade: frozenset[str] = frozenset()
    allow_missing: bool = False
    refresh_base: bool = False
    allow_kind_change: bool = False


@dataclass(frozen=True)
class Tools:
    """The build tools in use; `changed` if they are not those that the lock held."""

    files: tuple[LockedFile, ...] = field(default=())
    changed: bool = False


def lock_entry(
    recipe: Recipe,
    old: LockedImage | None,
    plugin_requires: tuple[str, ...],
    tools: Tools,
    services: Services,
    options: Options,
) -> LockedImage:
    """The entry of a recipe; recorded outputs are kept.

    Raises:
        FlbuildError: by class, what could not be found, resolved, built or accepted.
    """
    trusted = old if old is not None and is_sealed(old) else None
    if old is not None and trusted is None:
        services.progress.warn(f"{recipe.name}: the entry is {EDITED}; all of it is looked up again")
    base = lock_base(
        recipe,
        old.base if old else None,
        services.bases,
        refresh=options.refresh_base or trusted is not old,
        allow_kind_change=options.allow_kind_change,
    )
    environment = environment_of(recipe, base, services.progress)
    known = files_by_name(old)
    pinner = Pinner(
        services.client,
        services.store,
        environment,
        services.progress,
        old=files_by_name(trusted),
        moving=options.upgrade,
    )
    named = NamedPins(services.client, pinner, services.progress).pin_all(recipe.packages)
    gaps = _present([base.missing, *(item.missing for item in named)])
    settle_missing(recipe.name, gaps, services.progress, allowed=options.allow_missing)
    built = Sources(
        services.client,
        services.store,
        services.git,
        services.builder,
        services.progress,
        old={source.name: source for source in trusted.sources} if trusted else {},
        tools=tools.files,
        moving=options.upgrade,
        rebuild=tools.changed,
    ).lock_all(recipe, environment, allow_missing=options.allow_missing)

    lost = _present([*(item.missing for item in named), *(item.missing for item in built)])
    fixed = _present([*(item.fixed for item in named), *(item.fixed for item in built)])
    # What is missing must not be found elsewhere: its place in the closure is taken all the same.
    fixed += [Fixed.without_requirements(item.entry.name, item.entry.version) for item in lost]
    fixed += [Fixed.without_requirements(name, version) for name, version in recipe.base.provides.items()]
    question = Question(
        environment,
        requirements=(*_pinned_requirements(recipe), *plugin_requires),
        fixed=tuple(fixed),
        overrides=recipe.overrides,
        constraints=_unmoved(recipe, known, options.upgrade),
        preferences={name: file.version for name, file in known.items() if name not in options.upgrade},
    )
    closure, extras = _close(recipe, question, services, options)
    _refuse_forbidden(recipe, question, closure, extras, services.resolver)

    own = _present(item.file for item in named)
    packages = tuple(sorted((*own, *pinner.pin_all(closure, INDEX)), key=lambda file: file.name))
    targets = {name: pinner.pin_all(files, INDEX) for name, files in extras.items() if files}
    sources = tuple(item.locked for item in built if item.locked is not None)
    image = LockedImage(
        recipe=canonical_hash(recipe),
        platform=recipe.platform,
        python=recipe.python.version,
        base=base.base,
        sources=sources,
        packages=packages,
        targets=targets,
        unresolved=tuple(item.entry for item in _present([base.missing, *lost])),
        outputs=old.outputs if old else (),
    )
    return with_inventory(recipe, image, services.bases)


def environment_of(recipe: Recipe, base: BaseResult, progress: Progress) -> Environment:
    """Where the image's wheels run; an unknown C library is assumed, and said to be."""
    glibc = base.base.glibc if base.base is not None else None
    if glibc is None:
        progress.warn(f"{recipe.name}: the base's glibc is not known, {ASSUMED_GLIBC} is assumed")
    return Environment(recipe.python.version, recipe.platform, glibc or ASSUMED_GLIBC)


def files_by_name(old: LockedImage | None) -> dict[str, LockedFile]:
    """Every file of an entry by name: its packages and those of its targets."""
    if old is None:
        return {}
    everything = (*(file for files in old.targets.values() for file in files), *old.packages)
    return {file.name: file for file in everything}


def _pinned_requirements(recipe: Recipe) -> tuple[str, ...]:
    """What the recipe pins on the public index."""
    found = [
        f"{package.name}=={package.version}"
        for package in recipe.packages
        if package.git is None and not is_named(package)
    ]
    if not builds_vllm(recipe) and VLLM not in recipe.base.provides:
        found.append(f"{VLLM}=={recipe.vllm.version}")
    return tuple(found)


def _unmoved(recipe: Recipe, known: dict[str, LockedFile], upgrade: frozenset[str]) -> tuple[str, ...]:
    """With `--upgrade`, constraints that hold everything else where it is."""
    if not upgrade:
        return ()
    settled = {package.name for package in recipe.packages} | set(recipe.base.provides)
    settled |= {canonicalize_name(Requirement(text).name) for text in recipe.overrides}
    return tuple(
        f"{name}=={file.version}"
        for name, file in sorted(known.items())
        if name not in upgrade and name not in settled and file.index == INDEX
    )


def _close(
    recipe: Recipe, question: Question, services: Services, options: Options
) -> tuple[tuple[Resolved, ...], dict[str, tuple[Resolved, ...]]]:
    """The closure of the image, and what each target adds to it.

    All of them are resolved together first, so that a target never needs another version of what the image
    already holds.
    """
    wanted = {name: expand_target(recipe, name).packages for name in recipe.targets}
    everything = tuple(dict.fromkeys(text for texts in wanted.values() for text in texts))
    resolve = services.resolver.resolve
    with services.progress.task(
        f"resolve {recipe.name}", 2 + sum(map(bool, wanted.values())), unit="items"
    ) as task:
        try:
            joint = resolve(replace(question, requirements=(*question.requirements, *everything)))
        except RecipeError as error:
            if not options.upgrade:
                raise
            names = ", ".join(sorted(options.upgrade))
            raise RecipeError(
                f"{recipe.name}: {names} cannot move while everything else stays",
                cause=error.cause,
                remedy="name with --upgrade what has to move along",
            ) from error
        task.advance(1)
        settled = replace(question, constraints=pins(joint))
        closure = resolve(settled, known=True) if everything else joint
        task.advance(1)
        inside = {item.name for item in closure}
        extras: dict[str, tuple[Resolved, ...]] = {}
        for name, texts in wanted.items():
            if not texts:
                extras[name] = ()
                continue
            # A target that has what all have together was answered with them.
            whole = set(texts) == set(everything)
            asked = replace(settled, requirements=(*question.requirements, *texts))
            found = joint if whole else resolve(asked, known=True)
            extras[name] = tuple(item for item in found if item.name not in inside)
            task.advance(1)
    return closure, extras


def _refuse_forbidden(
    recipe: Recipe,
    question: Question,
    closure: tuple[Resolved, ...],
    extras: dict[str, tuple[Resolved, ...]],
    resolver: Resolver,
) -> None:
    names = {item.name for item in (*closure, *(item for items in extras.values() for item in items))}
    names |= {fixed.name for fixed in question.fixed}
    found = sorted(name for name in names if forbidden_by(name, recipe.forbid))
    if not found:
        return
    everything = tuple(text for name in recipe.targets for text in expand_target(recipe, name).packages)
    who = resolver.requirers(replace(question, requirements=(*question.requirements, *everything)))
    lines = [f"{name}, required by {', '.join(who.get(name, ())) or 'the recipe'}" for name in found]
    raise RecipeError(
        f"recipes/{recipe.name}.yaml: the closure for {recipe.platform} holds what the recipe forbids:\n"
        + "\n".join(f"  {line}" for line in lines),
        cause="a distribution declares it for this platform",
        remedy=f"drop it with the override '{found[0]}; sys_platform == \"never\"', and waive the check",
    )


def with_inventory(recipe: Recipe, image: LockedImage, bases: BaseLocker) -> LockedImage:
    """The entry with file lists for exactly those distributions of the base that leave it."""
    if image.base is None:
        return image
    names = leaving(recipe, image)
    base = bases.relist(image.base, image.platform) if lacks_files(image.base, names) else image.base
    return image.model_copy(update={"base": prune(base, names)})


def leaving(recipe: Recipe, image: LockedImage) -> set[str]:
    """Distributions of the base that the image takes out or replaces."""
    above = {*recipe.base.remove, recipe.plugin.name, *files_by_name(image)}
    return above | {source.name for source in image.sources}


def _present(items: Iterable[T | None]) -> list[T]:
    return [item for item in items if item is not None]
