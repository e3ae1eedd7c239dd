"""Every file of a group of wheels: what they bring, byte-code, and RECORD of all of it.

The one answer to what an image holds: the assembler writes it to a tar, a rendered Dockerfile's installer to
the image's file system. So it runs inside images too, with Python and `installer` alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from flbuild.build.oci.conflicts import refuse_conflicts
from flbuild.build.oci.entries import Entry
from flbuild.build.oci.install import install_wheel, record
from flbuild.errors import BuildError

if TYPE_CHECKING:
    from flbuild.plan.model import InstallScheme, PlannedWheel


def wheel_entries(
    wheels: Iterable[PlannedWheel],
    files: Mapping[str, Path],
    scheme: InstallScheme,
    compiled: Callable[[Sequence[Entry]], Mapping[str, Entry]],
) -> list[Entry]:
    """The files of these wheels, each path once.

    Args:
        files: every wheel's file by SHA-256.
        compiled: gives the byte-code of modules among entries, by the path of the source.

    Raises:
        BuildError: a wheel cannot be installed, or two of them bring different bytes for one path.
    """
    entries: list[Entry] = []
    records: list[tuple[str, str]] = []
    for wheel in sorted(wheels, key=lambda wheel: wheel.name):
        if wheel.sha256 is None:
            raise BuildError(f"{wheel.name} {wheel.version} has no locked file")
        installed, record_path = install_wheel(wheel, files[wheel.sha256], scheme)
        entries += installed
        records.append((record_path, wheel.name))
    written = refuse_conflicts(entries)
    codes = compiled(written)
    owned: dict[str, list[Entry]] = {owner: [] for _, owner in records}
    # A file that two distributions bring alike is written once, and stands in the RECORD of both.
    for entry in entries:
        owned[entry.owner] += [entry, *([codes[entry.path]] if entry.path in codes else [])]
    own = (record(path, owned[owner], scheme, owner) for path, owner in records)
    return [*written, *codes.values(), *own]
