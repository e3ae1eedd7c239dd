"""Whether the lock can be trusted by itself: it agrees with the recipes, is complete, and is consistent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)

from flbuild.finding import Finding
from flbuild.lock.check import stale
from flbuild.lock.model import Lock, LockedFile, LockedImage, LockedSource, SourceFile
from flbuild.lock.plugin import plugin_requirements
from flbuild.project import Project
from flbuild.recipe.load import load_recipe

CHECK = "lock"
_RESTORE = "restore images.lock from version control, or lock again"


def verify_lock(project: Project, lock: Lock) -> list[Finding]:
    """Everything that is wrong with `images.lock`; no network, no build."""
    findings = []
    names = project.recipe_names()
    for name in names:
        recipe = load_recipe(project.recipe_path(name))
        findings += [
            Finding("error", CHECK, name, line, f"flbuild lock {name}")
            for line in stale(recipe, lock, plugin_requirements(project.root, recipe))
        ]
    findings += _one_file_one_hash(lock)
    for name, image in lock.images.items():
        if name not in names:
            findings.append(Finding("error", CHECK, name, "the lock has an entry, but there is no recipe"))
        findings += _inputs(name, image)
        findings += _outputs(name, image)
    return findings


def _one_file_one_hash(lock: Lock) -> Iterator[Finding]:
    """A file of an index has one hash wherever it is pinned; two mean that one pin was edited."""
    hashes: dict[tuple[str, str], tuple[str, str]] = {}
    for where, file in _files(lock):
        first, sha256 = hashes.setdefault((file.index, file.filename), (where, file.sha256))
        if sha256 != file.sha256:
            yield Finding(
                "error",
                CHECK,
                f"{where}: {file.name}",
                f"{file.filename} has another SHA-256 here than at {first}",
                _RESTORE,
            )


def _files(lock: Lock) -> Iterator[tuple[str, LockedFile]]:
    yield from (("build_tools", file) for file in lock.build_tools)
    for name, image in lock.images.items():
        yield from ((name, file) for file in image.packages)
        yield from ((f"{name} {target}", file) for target, files in image.targets.items() for file in files)


def _inputs(name: str, image: LockedImage) -> Iterator[Finding]:
    for item in image.unresolved:
        yield Finding(
            "warning",
            CHECK,
            f"{name}: {item.name}",
            f"{item.version} is unresolved ({item.source}): {item.reason}",
            f"make it reachable, then flbuild lock {name}; no build accepts it until then",
        )
    for target, files in {"": image.packages, **image.targets}.items():
        where = f"{name} {target}".strip()
        for file in files:
            yield from _file(where, file)
        counts = Counter(file.name for file in (*image.packages, *image.targets.get(target, ())))
        for twice in sorted(item for item, count in counts.items() if count > 1 and target):
            yield Finding("error", CHECK, f"{where}: {twice}", "it is pinned twice")
    for source in image.sources:
        yield from _source(name, source)


def _file(where: str, file: LockedFile) -> Iterator[Finding]:
    """Name and version of a pin are those that its file name says."""
    try:
        name, version, _, _ = parse_wheel_filename(file.filename)
    except InvalidWheelFilename as error:
        yield Finding("error", CHECK, f"{where}: {file.name}", str(error))
        return
    if (canonicalize_name(name), str(version)) != (file.name, file.version):
        yield Finding(
            "error",
            CHECK,
            f"{where}: {file.name}",
            f"the entry says {file.version}, its file is {file.filename}",
            _RESTORE,
        )


def _source(where: str, source: LockedSource) -> Iterator[Finding]:
    if isinstance(source.source, SourceFile):
        try:
            name, version = parse_sdist_filename(source.source.filename)
        except InvalidSdistFilename as error:
            yield Finding("error", CHECK, f"{where}: {source.name}", str(error))
            return
        if name != source.name or str(version) != source.version.partition("+")[0]:
            yield Finding(
                "error",
                CHECK,
                f"{where}: {source.name}",
                f"the entry says {source.version}, its sdist is {source.source.filename}",
            )


def _outputs(name: str, image: LockedImage) -> Iterator[Finding]:
    published = Counter(output.reference for output in image.outputs if output.reference)
    for reference, count in published.items():
        if count > 1:
            yield Finding(
                "warning",
                CHECK,
                f"{name}: {reference}",
                f"{count} outputs are recorded under this tag, so it moved",
                "publish under a tag of its own each time",
            )
    for output in image.outputs:
        if len(output.layers) != len(output.diff_ids):
            yield Finding(
                "error", CHECK, f"{name}: {output.manifest}", "layers and diff_ids differ in number"
            )
