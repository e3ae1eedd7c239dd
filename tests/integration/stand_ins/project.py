"""A checkout of this repository in which the hardware recipes are locked against the stand-ins."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from checkout import REPOSITORY, Checkout, clone_repository

from flbuild.project import Project
from flbuild.settings import load_settings
from stand_ins.bases import push_bases
from stand_ins.packages import write_gems_repository, write_vendor_wheels
from stand_ins.servers import serve_git, serve_index

GEMS_URL = "https://github.com/flagos-ai/FlagGems"


@contextmanager
def hardware_checkout(folder: Path, registry: str, cache_dir: Path) -> Iterator[Checkout]:
    """Make everything below `folder`, serve it for as long as the block runs, and lock `ascend` and `cuda`.

    Args:
        registry: host and port of an empty registry; the bases get there.
    """
    vendors, repositories = folder / "vendors", folder / "git"
    repositories.mkdir(parents=True)
    write_vendor_wheels(vendors)
    commit = write_gems_repository(repositories / "FlagGems")
    project = Checkout(folder / "project", {**os.environ, "FLBUILD_CACHE_DIR": str(cache_dir)})
    clone_repository(REPOSITORY, project.root)
    push_bases(registry, load_settings(None, project.environ), Project(project.root))
    recipe = project.root / "recipes" / "ascend.yaml"
    recipe.write_text(re.sub(r"commit: [0-9a-f]{40}", f"commit: {commit}", recipe.read_text()))
    with ExitStack() as stack:
        index = stack.enter_context(serve_index(vendors))
        git = stack.enter_context(serve_git(repositories))
        (folder / "flbuild.toml").write_text(_settings(index, registry))
        (folder / "gitconfig").write_text(f'[url "{git}/FlagGems"]\n    insteadOf = {GEMS_URL}\n')
        environ = {
            **project.environ,
            "FLBUILD_CONFIG": str(folder / "flbuild.toml"),
            "GIT_CONFIG_GLOBAL": str(folder / "gitconfig"),
        }
        locked = Checkout(project.root, environ)
        locked.flbuild("lock", "ascend", "cuda")
        yield locked


def _settings(index: str, registry: str) -> str:
    tables = [f'[index.{name}]\nurl = "{index}/{name}/simple/"\n' for name in ("flagos", "cann")]
    tables += [f'[registry."{name}"]\nmirror = "{registry}"\n' for name in ("quay.io", "docker.io")]
    return "\n".join(tables)
