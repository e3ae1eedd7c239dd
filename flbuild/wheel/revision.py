"""Which commit a source tree is at: asked from git, or read from what `git archive` left in an export."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from packaging.version import InvalidVersion, Version

from flbuild.errors import HostError, UsageError

ARCHIVAL = ".git_archival.txt"
"""Filled in by `git archive` because .gitattributes marks it `export-subst`."""

SHORT = 7
TAGS = "v[0-9]*"

_DESCRIBED = re.compile(r"^(?P<tag>.+?)(?:-(?P<distance>\d+)-g[0-9a-f]+)?$")


@dataclass(frozen=True)
class Revision:
    """A commit: its 40 digits, its time in seconds, and the nearest version tag with the commits since."""

    commit: str
    epoch: int
    tag: str | None = None
    distance: int = 0

    @property
    def version(self) -> str:
        """PEP 440: the tag's own version on the tag, a post-release of it after, 0.0.0 without one."""
        local = f"g{self.commit[:SHORT]}"
        if self.tag is None:
            return f"0.0.0+{local}"
        version = Version(self.tag)
        return f"{version.public}.post{self.distance}+{local}" if self.distance else version.public


def read_revision(root: Path, commit: str = "HEAD") -> Revision | None:
    """The revision of the tree at `root`; None in a copy that has neither a repository nor archival data.

    Raises:
        UsageError: `commit` names nothing in the repository.
        HostError: git is missing, or refuses the repository.
    """
    if has_repository(root):
        return _from_git(root, commit)
    return _from_archival(root)


def has_repository(root: Path) -> bool:
    """Whether `root` is the top of a work tree; a repository further up is somebody else's."""
    return (root / ".git").exists()


def is_shallow(root: Path) -> bool:
    """Whether the repository lacks history, so that tags may be out of sight."""
    return git(root, "rev-parse", "--is-shallow-repository").strip() == "true"


def changed_files(root: Path, path: str) -> tuple[str, ...]:
    """Files below `path` that differ from the commit, untracked ones too."""
    lines = git(root, "status", "--porcelain", "--untracked-files=all", "--", path).splitlines()
    return tuple(line[3:] for line in lines)


def git(root: Path, *arguments: str) -> str:
    """The output of a git command in `root`; errors are HostError."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments],
            capture_output=True,
            text=True,
            env={**environment, "LC_ALL": "C"},
            check=False,
        )
    except FileNotFoundError:
        raise HostError("git is not installed", remedy="apt-get install git") from None
    if done.returncode:
        message = done.stderr.strip()
        remedy = (
            f"git config --global --add safe.directory {root}" if "dubious ownership" in message else None
        )
        raise HostError(f"git {arguments[0]} failed in {root}", cause=message, remedy=remedy)
    return done.stdout


def _from_git(root: Path, commit: str) -> Revision:
    try:
        found = git(
            root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}^{{commit}}"
        ).strip()
    except HostError as error:
        if error.remedy:
            raise
        raise UsageError(
            f"'{commit}' names no commit of {root}",
            cause="the repository has no commit yet, or the name is misspelled",
            remedy="git log --oneline -5",
        ) from None
    epoch = int(git(root, "show", "--no-patch", "--format=%ct", found))
    try:
        described = git(root, "describe", "--tags", "--match", TAGS, found).strip()
    except HostError:
        described = ""
    return Revision(found, epoch, *_tag(described))


def _from_archival(root: Path) -> Revision | None:
    try:
        text = (root / ARCHIVAL).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    fields = dict(line.partition(": ")[::2] for line in text.splitlines())
    commit, epoch = fields.get("node", ""), fields.get("node-date", "")
    if not re.fullmatch(r"[0-9a-f]{40}", commit) or not epoch.isdigit():
        return None
    return Revision(commit, int(epoch), *_tag(fields.get("describe-name", "")))


def _tag(described: str) -> tuple[str | None, int]:
    match = _DESCRIBED.match(described)
    if match is None:
        return None, 0
    try:
        Version(match["tag"])
    except InvalidVersion:
        return None, 0
    return match["tag"], int(match["distance"] or 0)
