"""A checkout of this repository that tests may change, and flbuild run in it as a user would."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
FLBUILD = str(Path(sysconfig.get_path("scripts")) / "flbuild")

_AUTHOR = {
    **{f"GIT_{role}_NAME": "Tests" for role in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{role}_EMAIL": "tests@example.org" for role in ("AUTHOR", "COMMITTER")},
}


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    status: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        """What it printed with `--json`."""
        return json.loads(self.stdout)


@dataclass(frozen=True)
class Checkout:
    """A project folder; `environ` is what flbuild runs with, `prefix` a command that starts it."""

    root: Path
    environ: Mapping[str, str]
    prefix: tuple[str, ...] = field(default=())

    def flbuild(self, *arguments: str, status: int = 0, **environ: str) -> Done:
        """Run flbuild and check its exit code."""
        done = subprocess.run(
            [*self.prefix, FLBUILD, *arguments],
            cwd=self.root,
            env={**self.environ, **environ},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == status, f"{done.returncode} from flbuild {arguments}:\n{done.stderr}"
        return Done(done.returncode, done.stdout, done.stderr)

    def git(self, *arguments: str) -> str:
        """The output of git."""
        environ = {**self.environ, **_AUTHOR}
        command = ["git", "-C", str(self.root), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, env=environ).stdout

    def commit(self, path: str, content: str) -> str:
        """Write a file and commit it; the commit is the result."""
        (self.root / path).write_text(content)
        self.git("add", path)
        self.git("commit", "--quiet", "--message", f"Change {path}")
        return self.git("rev-parse", "HEAD").strip()

    def clone(self, root: Path, environ: Mapping[str, str] | None = None) -> Checkout:
        """Another checkout of the same commit with the same lock."""
        clone_repository(self.root, root)
        shutil.copy(self.root / "images.lock", root)
        return Checkout(root, self.environ if environ is None else environ)


def clone_repository(source: Path, root: Path) -> None:
    """A clone of the commit that `source` is at; an export, which is at none, gets one."""
    if (source / ".git").exists():
        subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(source), str(root)], check=True)
        return
    ignored = shutil.ignore_patterns(".venv*", "build", "__pycache__", "*.egg-info", ".*_cache")
    shutil.copytree(source, root, ignore=ignored)
    copy = Checkout(root, os.environ)
    copy.git("init", "--quiet")
    copy.git("add", ".")
    copy.git("commit", "--quiet", "--message", "Export")
