"""Distributions that are built here: vLLM for the empty device, and packages from git."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from packaging.version import Version

from flbuild.errors import HostError, RecipeError, RemoteGoneError
from flbuild.files import sha256_file
from flbuild.index.client import IndexClient
from flbuild.index.git import GitStore, archive_sha256
from flbuild.index.store import FileRef, FileStore
from flbuild.index.tags import Environment
from flbuild.index.wheels import check_wheel, read_facts
from flbuild.lock.missing import Missing, missing, settle_missing
from flbuild.lock.model import GitSource, LockedFile, LockedSource, SourceFile
from flbuild.lock.pin import refuse
from flbuild.lock.resolve import INDEX
from flbuild.lock.stub import Fixed
from flbuild.progress import Progress
from flbuild.recipe.model import Package, Recipe
from flbuild.wheel.model import BuiltWheel

VLLM = "vllm"


@dataclass(frozen=True)
class Unbuilt:
    """A source and how it becomes a wheel; `version` is the one that the wheel must have."""

    name: str
    version: str
    source: SourceFile | GitSource
    env: Mapping[str, str]


class SourceBuilder(Protocol):
    """Makes wheels from sources: the same source and tools give the same bytes."""

    def build_source(
        self,
        name: str,
        version: str,
        source: SourceFile | GitSource,
        env: Mapping[str, str],
        tools: Sequence[LockedFile],
    ) -> BuiltWheel:
        """The wheel of a pinned source; a wheel of another version is a BuildError."""

    def build_locked(self, locked: LockedSource, tools: Sequence[LockedFile]) -> Path:
        """The wheel of a locked source; other bytes than the locked ones are a BuildError."""


@dataclass(frozen=True)
class Built:
    """A locked source and what its wheel requires, or why there is none."""

    locked: LockedSource | None = None
    fixed: Fixed | None = None
    missing: Missing | None = None


class Sources:
    """Locks the sources of a recipe.

    Args:
        old: the sources that the lock holds now, by name; kept while the source, its version and its build
            environment stay.
        tools: the build tools to use.
        moving: names to lock anew although nothing about them changed (`--upgrade`).
        rebuild: build again what is locked, because the build tools changed.
    """

    def __init__(
        self,
        client: IndexClient,
        store: FileStore,
        git: GitStore,
        builder: SourceBuilder,
        progress: Progress,
        *,
        old: Mapping[str, LockedSource],
        tools: tuple[LockedFile, ...],
        moving: frozenset[str] = frozenset(),
        rebuild: bool = False,
    ) -> None:
        self._client = client
        self._store = store
        self._git = git
        self._builder = builder
        self._progress = progress
        self._old = {name: source for name, source in old.items() if name not in moving}
        self._tools = tools
        self._rebuild = rebuild

    def lock_all(self, recipe: Recipe, environment: Environment, *, allow_missing: bool) -> tuple[Built, ...]:
        """Every source of a recipe. All are found before the first is built.

        Raises:
            HostError, RemoteGoneError: a source is missing, and `allow_missing` is false.
            RemoteMovedError: a tag names another commit than the locked one.
            BuildError: a source does not build.
        """
        found = [self._find(recipe)] if builds_vllm(recipe) else []
        found += [self._find(recipe, package) for package in recipe.packages if package.git is not None]
        gaps = [item for item in found if isinstance(item, Missing)]
        settle_missing(recipe.name, gaps, self._progress, allowed=allow_missing)
        return tuple(
            Built(missing=item) if isinstance(item, Missing) else self._lock(item, environment)
            for item in found
        )

    def _find(self, recipe: Recipe, package: Package | None = None) -> Unbuilt | Missing:
        try:
            return self._vllm(recipe) if package is None else self._from_git(package)
        except (HostError, RemoteGoneError) as error:
            if package is None:
                return missing(VLLM, recipe.vllm.local_version, INDEX, error)
            return missing(package.name, package.version, package.git or "", error)

    def _vllm(self, recipe: Recipe) -> Unbuilt:
        """vLLM's own metadata depend on the device it is built for, so the published wheel tells nothing."""
        version = recipe.vllm.version
        old = self._old.get(VLLM)
        env = {"VLLM_TARGET_DEVICE": recipe.vllm.device}
        local = recipe.vllm.local_version
        if old is not None and old.version == local and isinstance(old.source, SourceFile):
            return Unbuilt(VLLM, local, old.source, env)
        files = [
            file
            for file in self._client.files(INDEX, VLLM)
            if file.kind == "sdist" and Version(file.version) == Version(version)
        ]
        # A folder states no hashes, but holds the files.
        hashes = [sha256_file(file.path) if file.path is not None else file.sha256 for file in files[:1]]
        if not hashes or hashes[0] is None:
            raise RemoteGoneError(
                f"index '{INDEX}' has no hashed sdist of vllm {version}",
                remedy="correct vllm.version in the recipe",
            )
        file = FileRef(VLLM, INDEX, files[0].filename, hashes[0], files[0].size or 0)
        size = self._store.fetch(file).stat().st_size
        source = SourceFile(index=INDEX, filename=file.filename, sha256=file.sha256, size=size)
        return Unbuilt(VLLM, local, source, env)

    def _from_git(self, package: Package) -> Unbuilt:
        if package.git is None or package.commit is None:
            raise RecipeError(f"package {package.name} has no git commit")
        old = self._old.get(package.name)
        if (
            old is not None
            and isinstance(old.source, GitSource)
            and (old.source.git, old.source.commit, old.version)
            == (package.git, package.commit, package.version)
        ):
            self._require_tag(old.source)
            return Unbuilt(package.name, package.version, old.source, package.build_env)
        repository = self._git.commit(package.git, package.commit)
        source = GitSource(
            git=package.git,
            commit=package.commit,
            tag=self._tag(package.git, package.version, package.commit),
            archive_sha256=archive_sha256(repository, package.commit),
        )
        return Unbuilt(package.name, package.version, source, package.build_env)

    def _tag(self, url: str, version: str, commit: str) -> str | None:
        """The release tag that names the commit, so that a later run can see it move."""
        for tag in (f"v{version}", version):
            named = self._git.tag_commit(url, tag)
            if named == commit:
                return tag
            if named is not None:
                self._progress.warn(f"tag {tag} of {url} is {named[:12]}, the recipe pins {commit[:12]}")
        return None

    def _require_tag(self, source: GitSource) -> None:
        if source.tag is None:
            return
        try:
            self._git.require_tag(source.git, source.tag, source.commit)
        except HostError as error:
            self._progress.info(f"whether tag {source.tag} moved is not known: {error.what}")

    def _lock(self, unbuilt: Unbuilt, environment: Environment) -> Built:
        old = self._old.get(unbuilt.name)
        env = dict(unbuilt.env)
        same = old is not None and (old.version, old.source, old.env) == (
            unbuilt.version,
            unbuilt.source,
            env,
        )
        if old is not None and same and not self._rebuild:
            return Built(old, _fixed(self._builder.build_locked(old, self._tools)))
        wheel = self._builder.build_source(unbuilt.name, unbuilt.version, unbuilt.source, env, self._tools)
        # What was compiled here needs this machine's C library, which no tag tells.
        refuse(check_wheel(wheel.path, environment))
        locked = LockedSource(
            name=unbuilt.name,
            version=unbuilt.version,
            source=unbuilt.source,
            env=env,
            filename=wheel.filename,
            sha256=wheel.sha256,
            size=wheel.size,
        )
        return Built(locked, _fixed(wheel.path))


def builds_vllm(recipe: Recipe) -> bool:
    """Whether vLLM comes from its sources: for the empty device, unless the base carries it."""
    return recipe.vllm.device == "empty" and VLLM not in recipe.base.provides


def _fixed(path: Path) -> Fixed:
    facts = read_facts(path)
    return Fixed(facts.name, facts.version, facts.metadata)
