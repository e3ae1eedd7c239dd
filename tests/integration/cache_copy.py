"""A copy of a cache that a test may spoil."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection
from pathlib import Path

PARTS = ("blobs", "build-tools", "files", "index", "interpreters", "layers", "metadata", "wheels")
"""What later runs profit from; uv's own cache and the logs are left out."""


def copy_cache(source: Path, target: Path, *, without: Collection[str] = (), links: bool = True) -> Path:
    """Copy a cache; by hard links where that is possible, as flbuild replaces files and writes into none.

    Args:
        without: parts to leave out.
        links: whether files may be shared with `source`; if not, they can be given to another user.
    """
    for part in set(PARTS) - set(without):
        if (source / part).is_dir():
            shutil.copytree(
                source / part, target / part, symlinks=True, copy_function=_link if links else shutil.copy2
            )
    return target


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
