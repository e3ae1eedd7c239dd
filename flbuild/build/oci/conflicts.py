"""Two distributions that write the same file: the one installed last would win in silence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZipFile

from installer.utils import parse_entrypoints

from flbuild.build.oci.entries import Entry
from flbuild.errors import BuildError

if TYPE_CHECKING:
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
    """The same between layers, told by what each wheel's directory says, without unpacking.

    Raises:
        BuildError: two distributions of different layers bring different bytes for one path.
    """
    seen: dict[str, tuple[str, object]] = {}
    for layer in layers:
        for wheel in layer.wheels:
            path = files.get(wheel.sha256 or "")
            if path is None:
                continue
            for place, content in _places(path):
                owner, known = seen.setdefault(place, (wheel.name, content))
                if known != content:
                    raise _conflict(place, owner, wheel.name)


def _places(wheel: Path) -> Iterator[tuple[str, object]]:
    """Every path that a wheel writes (`scripts/NAME` for scripts), with what tells contents apart."""
    with ZipFile(wheel) as archive:
        for member in archive.infolist():
            top, _, rest = member.filename.partition("/")
            if member.is_dir():
                continue
            if top.endswith(".dist-info"):
                if rest == "entry_points.txt":
                    for name, *target in parse_entrypoints(archive.read(member).decode()):
                        yield f"scripts/{name}", target
                continue
            scheme, _, inside = rest.partition("/")
            is_data = top.endswith(".data")
            place = (
                inside
                if is_data and scheme in ("purelib", "platlib")
                else rest
                if is_data
                else member.filename
            )
            yield place, (member.CRC, member.file_size)


def _conflict(path: str, first: str, second: str) -> BuildError:
    return BuildError(
        f"{first} and {second} both install {path}, with different content",
        cause="one of them replaces modules of the other, as two providers of one module do",
        remedy="drop one of them from the recipe, or forbid it and override what requires it",
    )
