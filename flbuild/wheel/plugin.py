"""The plugin's wheel: from a commit of this repository, or from an export of one."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from packaging.utils import canonicalize_name

from flbuild.errors import HostError, PolicyError, UsageError
from flbuild.files import sha256_bytes, sha256_file
from flbuild.index.git import archive_sha256, export
from flbuild.lock.model import LockedFile
from flbuild.progress import Progress
from flbuild.recipe.model import Plugin
from flbuild.settings.toml import TomlError, parse_toml
from flbuild.wheel.builder import SOURCE_EPOCH, Project, WheelBuilder
from flbuild.wheel.model import BuiltWheel, PluginFacts
from flbuild.wheel.revision import Revision, changed_files, git, has_repository, is_shallow, read_revision

_GENERATED = ("__pycache__", "*.pyc", "_version.py")
_GENERATED_AT_TOP = ("*.egg-info", "build", "dist", ".venv*")
"""What working in the folder leaves behind; none of it is in a commit."""

_SOURCE_LABELS = ("source", "repository", "sourcecode", "github")
"""Packaging specification "Well-known Project URLs in Metadata", normalised."""


def plugin_facts(root: Path, plugin: Plugin, commit: str = "HEAD") -> PluginFacts:
    """What the plugin's wheel will be called and where it comes from, without building it.

    Raises:
        UsageError: there is no plugin here, or no such commit.
    """
    revision = read_revision(root, commit)
    source = _source_url(_pyproject(root, plugin, revision))
    if revision is None:
        version = f"0.0.0+export.{_content_hash(root / plugin.path)[:12]}"
        return PluginFacts(
            plugin.name, version, _filename(plugin.name, version), None, SOURCE_EPOCH, False, None, source
        )
    return PluginFacts(
        plugin.name,
        revision.version,
        _filename(plugin.name, revision.version),
        revision.commit,
        revision.epoch,
        revision.tag is not None,
        archive_sha256(root, revision.commit) if has_repository(root) else None,
        source,
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
        raise _untagged(root, facts)
    return builder.build(_project(root, plugin, facts), tools)


def _untagged(root: Path, facts: PluginFacts) -> PolicyError:
    if has_repository(root):
        return PolicyError(
            f"{facts.version} carries no order: no version tag is reachable from the commit",
            cause="the clone is shallow or was made without tags",
            remedy="git fetch --tags --unshallow, or tag the commit vX.Y.Z",
        )
    return PolicyError(
        f"{facts.version} carries no order: {root} is no repository, and records no version tag",
        cause="it is a plain copy, or an archive of a commit without a version tag",
        remedy="build in a clone with tags, or in an archive that git made: git archive vX.Y.Z",
    )


def find_plugin(
    root: Path, plugin: Plugin, facts: PluginFacts, builder: WheelBuilder, tools: Sequence[LockedFile]
) -> BuiltWheel | None:
    """The wheel that `facts` describes if it was built here before."""
    return builder.find(_project(root, plugin, facts), tools)


def _project(root: Path, plugin: Plugin, facts: PluginFacts) -> Project:
    def place(folder: Path) -> Path:
        if facts.revision is not None and has_repository(root):
            return _export(root, plugin.path, facts.revision, folder)
        return Path(shutil.copytree(root / plugin.path, folder, ignore=_left_behind(root / plugin.path)))

    return Project(plugin.name, facts.version, facts.revision or facts.version, place, {}, facts.epoch)


def _warn(root: Path, plugin: Plugin, facts: PluginFacts, progress: Progress) -> None:
    if facts.revision is None:
        progress.warn(
            f"this copy records no commit: the plugin's version comes from its content ({facts.version}); "
            "build from a clone or from `git archive` to publish"
        )
        return
    in_repository = has_repository(root)
    if not facts.tagged:
        reason = (
            "the clone is shallow" if in_repository and is_shallow(root) else "no version tag is reachable"
        )
        progress.warn(f"{reason}, so the plugin's version is {facts.version}, which carries no order")
    if not in_repository:
        return
    changed = changed_files(root, plugin.path)
    if changed and git(root, "rev-parse", "HEAD").strip() == facts.revision:
        shown = ", ".join(changed[:3]) + (" ..." if len(changed) > 3 else "")
        progress.warn(f"uncommitted changes are not in the wheel: {shown}")


def _pyproject(root: Path, plugin: Plugin, revision: Revision | None) -> str:
    """The plugin's pyproject.toml as it is in the commit, or in a copy."""
    path = f"{plugin.path}/pyproject.toml"
    try:
        if revision is not None and has_repository(root):
            return git(root, "show", f"{revision.commit}:{path}")
        return (root / path).read_text(encoding="utf-8")
    except (HostError, FileNotFoundError):
        where = f"commit {revision.commit[:12]} of {root}" if revision is not None else str(root)
        raise UsageError(f"{where} has no {path}, so no plugin can be built") from None


def _source_url(pyproject: str) -> str | None:
    """The project's URL of its sources, by the well-known labels of project metadata.

    Raises:
        UsageError: the file is no TOML.
    """
    try:
        urls = parse_toml(pyproject).get("project", {}).get("urls", {})
    except TomlError as error:
        raise UsageError("the plugin's pyproject.toml cannot be read", cause=str(error)) from error
    labels = {re.sub(r"[\W_]", "", label).lower(): str(url) for label, url in urls.items()}
    return next((labels[label] for label in _SOURCE_LABELS if label in labels), None)


def _filename(name: str, version: str) -> str:
    return f"{canonicalize_name(name).replace('-', '_')}-{version}-py3-none-any.whl"


def _export(root: Path, path: str, commit: str, folder: Path) -> Path:
    """Unpack one folder of a commit as `git archive` gives it."""
    with TemporaryDirectory(prefix="flbuild-archive-") as temporary:
        export(root, commit, Path(temporary))
        shutil.move(str(Path(temporary) / path), folder)
    return folder


def _left_behind(top: Path) -> Callable[[str, list[str]], set[str]]:
    """What `shutil.copytree` must leave out below `top`."""
    anywhere, only_at_top = (shutil.ignore_patterns(*names) for names in (_GENERATED, _GENERATED_AT_TOP))

    def ignore(folder: str, names: list[str]) -> set[str]:
        return anywhere(folder, names) | (only_at_top(folder, names) if Path(folder) == top else set())

    return ignore


def _content_hash(top: Path) -> str:
    """A hash of the paths and bytes below `top`, without what work leaves behind."""
    ignore = _left_behind(top)
    lines = []
    pending = [top]
    while pending:
        folder = pending.pop()
        names = [entry.name for entry in folder.iterdir()]
        for name in set(names) - ignore(str(folder), names):
            entry = folder / name
            if entry.is_dir():
                pending.append(entry)
            else:
                lines.append(f"{entry.relative_to(top).as_posix()} {sha256_file(entry)}")
    return sha256_bytes("\n".join(sorted(lines)).encode())
