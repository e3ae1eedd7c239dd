"""The cache folder: writable, and with room for wheels, layers and bases."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from rich.filesize import decimal

from flbuild.doctor.context import Machine, bad, good, lacking
from flbuild.files import unnamed_folder
from flbuild.finding import Finding

NEEDED = 2_000_000_000
"""Bytes that a first build of the cpu image takes: wheels, their layers, the base, the layout."""

COMFORTABLE = 20_000_000_000
"""Bytes that let several images with accelerator wheels be built."""


def cache(machine: Machine) -> Iterator[Finding]:
    """A file can be written there, and there is room."""
    folder = machine.settings.cache_dir
    remedy = "set FLBUILD_CACHE_DIR to a folder on another disk"
    try:
        with unnamed_folder(folder) as workplace:
            (workplace / "probe").write_bytes(b"")
    except OSError as error:
        yield bad("cache", str(folder), f"it cannot be written to: {error.strerror}", remedy)
        return
    free = shutil.disk_usage(_existing(folder)).free
    if free < NEEDED:
        yield bad("cache", str(folder), f"{decimal(free)} are free, a build takes {decimal(NEEDED)}", remedy)
    elif free < COMFORTABLE:
        yield lacking("cache", str(folder), f"only {decimal(free)} are free", remedy)
    else:
        yield good("cache", str(folder), f"{decimal(free)} free")


def _existing(folder: Path) -> Path:
    return next(path for path in (folder, *folder.parents) if path.exists())
