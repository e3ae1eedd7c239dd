"""Whether an entry of the lock is what its recipe asks for: no network, no solving, all differences named."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from packaging.requirements import Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from flbuild.index.markers import applies, marker_environment
from flbuild.index.tags import Environment
from flbuild.lock.base import ASSUMED_GLIBC, asks_for, base_name, lacks_files
from flbuild.lock.entry import files_by_name, leaving
from flbuild.lock.model import GitSource, Lock, LockedFile, LockedImage, LockedImageBase, LockedSource
from flbuild.lock.named import is_named
from flbuild.lock.resolve import INDEX
from flbuild.lock.seal import EDITED, is_sealed, tools_are_sealed
from flbuild.lock.sources import VLLM, builds_vllm
from flbuild.recipe.canonical import canonical_hash
from flbuild.recipe.model import Recipe
from flbuild.recipe.names import forbidden_by
from flbuild.recipe.targets import expand_target


def stale(recipe: Recipe, lock: Lock, plugin_requires: Sequence[str] = ()) -> list[str]:
    """What differs between a recipe and its entry, in words; nothing if they agree.

    Entries that are marked as unresolved agree with the recipe: it is the build that refuses them.

    Args:
        plugin_requires: what the plugin of this repository requires.
    """
    image = lock.images.get(recipe.name)
    if image is None:
        return [f"images.lock has no entry '{recipe.name}'"]
    differences = [
        *_platform(recipe, image),
        *_base(recipe, image),
        *_packages(recipe, image),
        *_sources(recipe, image),
        *_targets(recipe, image, plugin_requires),
        *_files(recipe, image),
        *_forbidden(recipe, image),
    ]
    if not differences and image.recipe != canonical_hash(recipe):
        differences.append("the recipe changed since it was locked, in something that is no pin")
    if not differences and not is_sealed(image):
        differences.append(f"the entry is {EDITED}")
    if not tools_are_sealed(lock):
        differences.append(f"build_tools: {EDITED}")
    return differences


def _platform(recipe: Recipe, image: LockedImage) -> Iterator[str]:
    if image.platform != recipe.platform:
        yield f"platform: the recipe says {recipe.platform}, the lock {image.platform}"
    if image.python != recipe.python.version:
        yield f"python: the recipe says {recipe.python.version}, the lock {image.python}"


def _base(recipe: Recipe, image: LockedImage) -> Iterator[str]:
    name, version, source = base_name(recipe)
    missing = {item.name for item in image.unresolved if item.source == source}
    if image.base is None:
        if name not in missing:
            yield "base: the lock has none, and does not say that it could not be reached"
        return
    if not asks_for(recipe, image.base):
        yield f"base: the recipe says {name}:{version}, the lock another one"
    if isinstance(image.base, LockedImageBase) and ":" not in image.base.reference.rpartition("/")[2]:
        yield f"base: the lock pins {image.base.reference} without a tag"
    for item in lacks_files(image.base, leaving(recipe, image)):
        yield f"base: the lock does not list the files of {item.name}, which the image takes out"


def _packages(recipe: Recipe, image: LockedImage) -> Iterator[str]:
    files = {file.name: file for file in image.packages}
    sources = {source.name for source in image.sources}
    missing = {item.name: item.version for item in image.unresolved}
    wanted = {
        package.name: (package.version, package.index or INDEX)
        for package in recipe.packages
        if package.git is None
    }
    if not builds_vllm(recipe) and VLLM not in recipe.base.provides:
        wanted[VLLM] = (recipe.vllm.version, INDEX)
    for name, (version, index) in wanted.items():
        file = files.get(name)
        if file is not None and not _equal(file.version, version):
            yield f"{name}: the recipe pins {version}, the lock {file.version}"
        elif file is not None and file.index != index:
            yield f"{name}: the recipe takes it from '{index}', the lock from '{file.index}'"
        elif file is None and missing.get(name) != version:
            yield f"{name}: the recipe pins {version}, the lock has none"
    named = {package.name for package in recipe.packages if is_named(package)}
    for file in (*image.packages, *(file for files in image.targets.values() for file in files)):
        if file.index != INDEX and file.name not in named:
            yield f"{file.name}: the lock takes it from '{file.index}', which the recipe does not ask for"
        if file.name in recipe.base.provides:
            yield f"{file.name}: the lock replaces what the base provides"
        if file.name in missing or file.name in sources:
            yield f"{file.name}: the lock names it twice, once as a file from '{file.index}'"


def _sources(recipe: Recipe, image: LockedImage) -> Iterator[str]:
    found = {source.name: source for source in image.sources}
    missing = {item.name: item.version for item in image.unresolved}
    wanted: dict[str, tuple[str, str | None]] = {
        package.name: (package.version, package.commit)
        for package in recipe.packages
        if package.git is not None
    }
    if builds_vllm(recipe):
        wanted[VLLM] = (recipe.vllm.local_version, None)
    for name, (version, commit) in wanted.items():
        source = found.get(name)
        if source is None:
            if missing.get(name) != version:
                yield f"{name}: the recipe builds {version} from source, the lock has none"
        elif not _equal(source.version, version):
            yield f"{name}: the recipe builds {version} from source, the lock {source.version}"
        elif commit != _commit(source):
            yield f"{name}: the recipe builds commit {commit}, the lock {_commit(source)}"
    for name in sorted(set(found) - set(wanted)):
        yield f"{name}: the lock builds it from source, which the recipe does not ask for"


def _targets(recipe: Recipe, image: LockedImage, plugin_requires: Iterable[str]) -> Iterator[str]:
    for name in sorted(set(image.targets) - set(recipe.targets)):
        yield f"targets.{name}: the lock has it, the recipe does not"
    common = _versions(recipe, image)
    for text in _unsatisfied(plugin_requires, common, image.python, recipe.platform):
        yield f"the plugin requires {text}, the lock has no such file"
    for name in recipe.targets:
        inside = {**common, **{file.name: file.version for file in image.targets.get(name, ())}}
        for text in _unsatisfied(expand_target(recipe, name).packages, inside, image.python, recipe.platform):
            yield f"targets.{name}: the recipe wants {text}, the lock has no such file"


def _files(recipe: Recipe, image: LockedImage) -> Iterator[str]:
    glibc = image.base.glibc if image.base is not None else None
    environment = Environment(recipe.python.version, recipe.platform, glibc or ASSUMED_GLIBC)
    for place, files in (("packages", image.packages), *image.targets.items()):
        names = [file.name for file in files]
        for name in sorted({name for name in names if names.count(name) > 1}):
            yield f"{name}: the lock names it more than once in {place}"
        for file in files:
            yield from _file(file, environment)
    for source in image.sources:
        yield from _file(source, environment)


def _file(file: LockedFile | LockedSource, environment: Environment) -> Iterator[str]:
    try:
        name, version, _, _ = parse_wheel_filename(file.filename)
    except InvalidWheelFilename:
        yield f"{file.name}: '{file.filename}' is not the name of a wheel"
        return
    if name != file.name or not _equal(str(version), file.version):
        yield f"{file.name}: the lock says {file.version}, its file is {file.filename}"
    elif environment.rank(file.filename) is None:
        yield f"{file.name}: {file.filename} does not fit: {environment.why_not([file.filename])}"
    elif isinstance(file, LockedFile) and not _runs(file.requires_python, environment.python):
        yield f"{file.name}: it requires Python {file.requires_python}, the image has {environment.python}"


def _forbidden(recipe: Recipe, image: LockedImage) -> Iterator[str]:
    for name in sorted({*files_by_name(image), *(source.name for source in image.sources)}):
        if pattern := forbidden_by(name, recipe.forbid):
            yield f"{name}: the lock holds it, the recipe forbids '{pattern}'"


def _versions(recipe: Recipe, image: LockedImage) -> dict[str, str]:
    """Every distribution of the image by name, whatever brings it."""
    return {
        **recipe.base.provides,
        **{item.name: item.version for item in image.unresolved},
        **{file.name: file.version for file in image.packages},
        **{source.name: source.version for source in image.sources},
    }


def _unsatisfied(
    requirements: Iterable[str], versions: Mapping[str, str], python: str, platform: str
) -> Iterator[str]:
    environment = marker_environment(platform, python)
    for text in requirements:
        requirement = Requirement(text)
        if not applies(requirement, environment):
            continue
        version = versions.get(canonicalize_name(requirement.name))
        if version is None or not requirement.specifier.contains(version, prereleases=True):
            yield text


def _runs(requires_python: str | None, python: str) -> bool:
    try:
        # The image's patch release is not known here, so a bound within this minor version is let pass.
        return requires_python is None or any(
            SpecifierSet(requires_python).contains(f"{python}.{patch}") for patch in (0, 99)
        )
    except InvalidSpecifier:
        return True


def _commit(source: LockedSource) -> str | None:
    return source.source.commit if isinstance(source.source, GitSource) else None


def _equal(left: str, right: str) -> bool:
    try:
        return Version(left) == Version(right)
    except InvalidVersion:
        return left == right
