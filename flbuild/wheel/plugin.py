"""The plugin's wheel: from a commit of this repository, or from an export of one."""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from packaging.utils import canonicalize_name

from flbuild.errors import PolicyError, UsageError
from flbuild.files import sha256_bytes, sha256_file
from flbuild.index.git import archive_sha256
from flbuild.lock.model import LockedFile
from flbuild.progress import Progress
from flbuild.recipe.model import Plugin
from flbuild.wheel.builder import SOURCE_EPOCH, Project, WheelBuilder
from flbuild.wheel.model import BuiltWheel, PluginFacts
from flbuild.wheel.revision import changed_files, git, has_repository, is_shallow, read_revision

_GENERATED = ("__pycache__", "*.pyc", "*.egg-info", "build", "dist", "_version.py")
"""What working in the folder leaves behind; none of it is in a commit."""


def plugin_facts(root: Path, plugin: Plugin, commit: str = "HEAD") -> PluginFacts:
    """What the plugin's wheel will be called and where it comes from, without building it.

    Raises:
        UsageError: there is no plugin here, or no such commit.
    """
    revision = read_revision(root, commit)
    if not (root / plugin.path / "pyproject.toml").is_file() and not has_repository(root):
        raise UsageError(f"{root} has no {plugin.path}/pyproject.toml, so no plugin can be built")
    if revision is None:
        version = f"0.0.0+export.{_content_hash(root / plugin.path)[:12]}"
        return PluginFacts(
            plugin.name, version, _filename(plugin.name, version), None, SOURCE_EPOCH, False, None
        )
    return PluginFacts(
        plugin.name,
        revision.version,
        _filename(plugin.name, revision.version),
        revision.commit,
        revision.epoch,
        revision.tag is not None,
        archive_sha256(root, revision.commit) if has_repository(root) else None,
    )


def build_plugin(
    root: Path,
    plugin: Plugin,
    facts: PluginFacts,
    builder: WheelBuilder,
    tools: Sequence[LockedFile],
    progress: Progress,
    *,
    require_tag: bool = False,
) -> BuiltWheel:
    """Build the wheel that `facts` describes; uncommitted changes are never part of it.

    Raises:
        PolicyError: `require_tag`, and no version tag is reachable from the commit.
        BuildError: it does not build.
    """
    _warn(root, plugin, facts, progress)
    if require_tag and not facts.tagged:
        raise PolicyError(
            f"{facts.version} carries no order: no version tag is reachable from the commit",
            cause="the clone is shallow or was made without tags" if has_repository(root) else None,
            remedy="git fetch --tags --unshallow, or tag the commit vX.Y.Z",
        )

    def export(folder: Path) -> Path:
        if facts.revision is not None and has_repository(root):
            return _export(root, plugin.path, facts.revision, folder)
        return Path(shutil.copytree(root / plugin.path, folder, ignore=shutil.ignore_patterns(*_GENERATED)))

    identity = facts.revision or facts.version
    project = Project(plugin.name, facts.version, identity, export, {}, facts.epoch)
    return builder.build(project, tools)


def _warn(root: Path, plugin: Plugin, facts: PluginFacts, progress: Progress) -> None:
    if facts.revision is None:
        progress.warn(
            f"this copy records no commit: the plugin's version comes from its content ({facts.version}); "
            "build from a clone or from `git archive` to publish"
        )
        return
    if not has_repository(root):
        return
    if not facts.tagged:
        shallow = "the clone is shallow" if is_shallow(root) else "no version tag is reachable"
        progress.warn(f"{shallow}, so the plugin's version is {facts.version}, which carries no order")
    changed = changed_files(root, plugin.path)
    if changed and git(root, "rev-parse", "HEAD").strip() == facts.revision:
        shown = ", ".join(changed[:3]) + (" ..." if len(changed) > 3 else "")
        progress.warn(f"uncommitted changes are not in the wheel: {shown}")


def _filename(name: str, version: str) -> str:
    return f"{canonicalize_name(name).replace('-', '_')}-{version}-py3-none-any.whl"


def _export(root: Path, path: str, commit: str, folder: Path) -> Path:
    """Unpack one folder of a commit as `git archive` gives it."""
    with TemporaryDirectory(prefix="flbuild-archive-") as temporary:
        archive = Path(temporary) / "plugin.tar"
        git(root, "archive", "--format=tar", f"--output={archive}", commit, path)
        with tarfile.open(archive) as tar:
            tar.extractall(temporary, filter="data")
        shutil.move(str(Path(temporary) / path), folder)
    return folder


def _content_hash(folder: Path) -> str:
    """A hash of the paths and bytes below `folder`, without what work leaves behind."""
    ignore = shutil.ignore_patterns(*_GENERATED)
    lines = []
    pending = [folder]
    while pending:
        current = pending.pop()
        names = sorted(entry.name for entry in current.iterdir())
        ignored = ignore(str(current), names)
        for name in names:
            entry = current / name
            if name in ignored:
                continue
            if entry.is_dir():
                pending.append(entry)
            else:
                lines.append(f"{entry.relative_to(folder).as_posix()} {sha256_file(entry)}")
    return sha256_bytes("\n".join(sorted(lines)).encode())
