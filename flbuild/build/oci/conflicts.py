"""Two distributions that write the same file: the one installed last would win in silence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from zipfile import ZipFile

from flbuild.build.oci.entries import Entry
from flbuild.errors import BuildError
from flbuild.plan.model import PlannedLayer


def refuse_conflicts(entries: Iterable[Entry]) -> list[Entry]:
    """The entries of a layer, each path once; the same bytes twice are no conflict.

    Raises:
        BuildError: two distributions bring different bytes for one path.
    """
    kept: dict[str, Entry] = {}
    for entry in entries:
        first = kept.setdefault(entry.path, entry)
        if first.content.digest != entry.content.digest:
            raise _conflict(entry.path, first.owner, entry.owner)
    return list(kept.values())


def refuse_layer_conflicts(layers: Iterable[PlannedLayer], files: Mapping[str, Path]) -> None:
    """The same between layers, told by the CRC and size in each wheel's directory, without unpacking.

    Raises:
        BuildError: two distributions of different layers bring different bytes for one path.
    """
    seen: dict[str, tuple[str, int, int]] = {}
    for layer in layers:
        for wheel in layer.wheels:
            path = files.get(wheel.sha256 or "")
            if path is None:
                continue
            with ZipFile(path) as archive:
                members = archive.infolist()
            for member in members:
                top = member.filename.split("/", 1)[0]
                if member.is_dir() or top.endswith((".dist-info", ".data")):
                    continue
                mine = (wheel.name, member.CRC, member.file_size)
                first = seen.setdefault(member.filename, mine)
                if first[1:] != mine[1:]:
                    raise _conflict(member.filename, first[0], wheel.name)


def _conflict(path: str, first: str, second: str) -> BuildError:
    return BuildError(
        f"{first} and {second} both install {path}, with different content",
        cause="one of them replaces modules of the other, as two providers of one module do",
        remedy="drop one of them from the recipe, or forbid it and override what requires it",
    )
