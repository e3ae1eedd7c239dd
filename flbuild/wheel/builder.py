"""From a source tree to a normalised, checked wheel in the store; built once per source and tools."""

from __future__ import annotations

import json
import re
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.version import Version

from flbuild.errors import BuildError
from flbuild.files import sha256_bytes, sha256_file, write_atomic
from flbuild.index.git import GitStore, archive_sha256, export
from flbuild.index.store import FileRef, FileStore
from flbuild.index.wheels import read_facts
from flbuild.lock.model import GitSource, LockedFile, LockedSource, SourceFile
from flbuild.progress import Progress
from flbuild.wheel.backend import build_wheel
from flbuild.wheel.model import BuiltWheel
from flbuild.wheel.normal import normalise
from flbuild.wheel.tools import ToolEnvironments, tools_key

RECIPE_VERSION = "1"
"""Raised when the way wheels are built changes their bytes: cached ones are then built again."""

SOURCE_EPOCH = 315532800
"""1980-01-01, in seconds: sources pinned by hash have no time of their own."""

EMPTY_TORCH = Path(__file__).parent / "empty_torch"
"""A folder with as much of torch as vLLM's build asks for when it builds no device code."""


@dataclass(frozen=True)
class Project:
    """A source tree to build: what identifies it, how it gets here, and what it must become."""

    name: str
    version: str
    identity: str
    export: Callable[[Path], Path]
    env: Mapping[str, str]
    epoch: int = SOURCE_EPOCH


class WheelBuilder:
    """Builds wheels with locked tools; the same source and tools give the same bytes anywhere.

    A build happens in a fresh folder whose path never reaches the wheel, and its result goes to the store.
    """

    def __init__(self, cache_dir: Path, store: FileStore, git: GitStore, progress: Progress) -> None:
        self._cache = cache_dir / "wheels"
        self._logs = cache_dir / "logs"
        self._store = store
        self._git = git
        self._environments = ToolEnvironments(cache_dir, store)
        self._progress = progress

    def build_source(
        self,
        name: str,
        version: str,
        source: SourceFile | GitSource,
        env: Mapping[str, str],
        tools: Sequence[LockedFile],
    ) -> BuiltWheel:
        """The wheel of a pinned source, whatever its bytes turn out to be.

        Raises:
            BuildError: it does not build, or not to `version`.
            RemoteMovedError: the source is not the pinned one any more.
        """
        environment = source_environment(version, env, str(EMPTY_TORCH))
        unpack: Callable[[Path], Path]
        if isinstance(source, SourceFile):
            file = FileRef(name, source.index, source.filename, source.sha256, source.size)
            unpack, identity = lambda folder: _unpack_sdist(self._store.fetch(file), folder), source.sha256
        else:
            unpack, identity = lambda folder: self._export(source, folder), source.archive_sha256
        identity = json.dumps([identity, sorted(env.items())])
        return self.build(Project(name, version, identity, unpack, environment), tools)

    def build_locked(self, locked: LockedSource, tools: Sequence[LockedFile]) -> Path:
        """The wheel of a locked source, with the locked bytes.

        Raises:
            BuildError: the build gives other bytes than those in the lock.
        """
        found = self._store.find(locked.sha256, locked.filename)
        if found is not None:
            return found
        built = self.build_source(locked.name, locked.version, locked.source, locked.env, tools)
        if built.sha256 != locked.sha256:
            raise BuildError(
                f"{locked.name} {locked.version} built here is not the locked wheel\n"
                f"  lock:  {locked.sha256}\n  build: {built.sha256}",
                cause="the lock was edited, or the build depends on something of this machine",
                remedy=f"flbuild lock --upgrade {locked.name} accepts this build",
            )
        return built.path

    def build(self, project: Project, tools: Sequence[LockedFile]) -> BuiltWheel:
        """The wheel of a source tree; taken from the store if it was built before."""
        remembered = self.find(project, tools)
        if remembered is not None:
            return remembered
        with self._progress.task(f"build {project.name} {project.version}"):
            folder = Path(tempfile.mkdtemp(prefix="flbuild-wheel-"))
            try:
                path = self._store.add(self._run(project, tools, folder))
            finally:
                shutil.rmtree(folder, ignore_errors=True)
        sha256 = sha256_file(path)
        write_atomic(self._note(project, tools), json.dumps({"filename": path.name, "sha256": sha256}))
        return BuiltWheel(path, project.name, project.version, sha256, path.stat().st_size)

    def find(self, project: Project, tools: Sequence[LockedFile]) -> BuiltWheel | None:
        """The wheel of a source tree if it was built before and is still in the store."""
        try:
            entry = json.loads(self._note(project, tools).read_text())
            path = self._store.find(entry["sha256"], entry["filename"])
        except (OSError, ValueError, KeyError):
            return None
        if path is None:
            return None
        return BuiltWheel(path, project.name, project.version, entry["sha256"], path.stat().st_size)

    def _note(self, project: Project, tools: Sequence[LockedFile]) -> Path:
        decisive = [project.name, project.version, project.identity, project.epoch, tools_key(tools)]
        return self._cache / f"{sha256_bytes(json.dumps([RECIPE_VERSION, *decisive]).encode())}.json"

    def _run(self, project: Project, tools: Sequence[LockedFile], folder: Path) -> Path:
        source = project.export(folder / "source")
        environment = {**told_version(project.name, project.version), **project.env}
        raw = build_wheel(
            source,
            folder / "raw",
            python=self._environments.python(tools),
            environment=environment,
            log=self._logs / f"wheel-{project.name}.log",
            epoch=project.epoch,
        )
        wheel = normalise(raw, folder / "wheel")
        built = read_facts(wheel)
        if Version(built.version) != Version(project.version):
            raise BuildError(
                f"{project.name} built itself as {built.version}, not as {project.version}",
                cause="its build ignores the version it was told, or the source is of another release",
                remedy="correct the version, or how the project finds it",
            )
        return wheel

    def _export(self, source: GitSource, folder: Path) -> Path:
        repository = self._git.commit(source.git, source.commit)
        found = archive_sha256(repository, source.commit)
        if found != source.archive_sha256:
            raise BuildError(
                f"the archive of {source.git} at {source.commit[:12]} is not the locked one\n"
                f"  lock: {source.archive_sha256}\n  here: {found}",
                cause="the lock was edited, or this git writes archives in another format",
            )
        export(repository, source.commit, folder)
        return folder


def source_environment(version: str, env: Mapping[str, str], empty_torch: str) -> dict[str, str]:
    """The variables that a pinned source is built with.

    Args:
        env: those of its pin.
        empty_torch: where the build finds `EMPTY_TORCH`.
    """
    if env.get("VLLM_TARGET_DEVICE") != "empty":
        return dict(env)
    return {**env, "PYTHONPATH": empty_torch, "VLLM_VERSION_OVERRIDE": version}


def told_version(name: str, version: str) -> dict[str, str]:
    """The variable that tells setuptools-scm a version: an archive has no repository to ask."""
    return {f"SETUPTOOLS_SCM_PRETEND_VERSION_FOR_{re.sub(r'[-.]+', '_', name).upper()}": version}


def _unpack_sdist(path: Path, folder: Path) -> Path:
    """Unpack an sdist and give the one folder in it (PEP 625)."""
    folder.mkdir(parents=True)
    try:
        with tarfile.open(path, "r:gz") as archive:
            archive.extractall(folder, filter="data")
    except tarfile.TarError as error:
        raise BuildError(f"{path.name} is no sdist", cause=str(error)) from error
    entries = list(folder.iterdir())
    if len(entries) != 1 or not entries[0].is_dir():
        raise BuildError(f"{path.name} is no sdist: it holds {len(entries)} entries instead of one folder")
    return entries[0]
