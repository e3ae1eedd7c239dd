"""Installing wheels into layer entries instead of a file system, with what pip would have written."""

from __future__ import annotations

import csv
import hashlib
import io
import os
import posixpath
import warnings
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO
from zipfile import BadZipFile, ZipExtFile

from installer import install
from installer.destinations import WheelDestination
from installer.exceptions import InstallerError
from installer.records import Hash, RecordEntry
from installer.scripts import Script
from installer.sources import WheelFile
from installer.utils import Scheme

from flbuild.build.oci.entries import Content, Entry
from flbuild.errors import BuildError
from flbuild.files import CHUNK

if TYPE_CHECKING:
    from installer.scripts import ScriptSection

    # This module also runs inside images, where nothing but Python and `installer` is there.
    from flbuild.plan.model import InstallScheme, PlannedWheel

INSTALLER = b"flbuild\n"
HELD = 1 << 20
"""Files up to this size, in bytes, stay in memory; larger ones are read from the wheel a second time."""

_SHEBANG = b"#!python"


class LayerDestination(WheelDestination):
    """Collects what one wheel installs.

    Args:
        wheel: the wheel's file, for reading large members again.
        owner: the name of its distribution.
        scheme: where things go inside the image.
    """

    def __init__(self, wheel: Path, owner: str, scheme: InstallScheme) -> None:
        self._wheel = wheel
        self._owner = owner
        self._scheme = scheme
        self.entries: list[Entry] = []
        self.record_path = ""

    def write_script(self, name: str, module: str, attr: str, section: ScriptSection) -> RecordEntry:
        """An entry-point script, with the image's interpreter in its first line."""
        script, data = Script(name, module, attr, section).generate(self._scheme.executable, "posix")
        return self._keep(f"{self._scheme.scripts}/{script}", Content.of(data), 0o755)

    def write_file(
        self, scheme: Scheme, path: str | os.PathLike[str], stream: BinaryIO, is_executable: bool
    ) -> RecordEntry:
        """A file of the wheel, in one of PEP 427's schemes."""
        target = f"{self._folder(scheme)}/{Path(path).as_posix()}"
        mode = 0o755 if is_executable or scheme == "scripts" else 0o644
        data = stream.read(HELD + 1)
        if scheme == "scripts" and data.startswith(_SHEBANG):
            data = b"#!" + self._scheme.executable.encode() + data[len(_SHEBANG) :] + stream.read()
        elif len(data) > HELD and isinstance(stream, ZipExtFile):
            return self._keep(target, self._large(data, stream), mode)
        return self._keep(target, Content.of(data), mode)

    def finalize_installation(
        self, scheme: Scheme, record_file_path: str, records: Iterable[tuple[Scheme, RecordEntry]]
    ) -> None:
        """Only remember RECORD's place: it also lists the byte-code, which is compiled later."""
        self.record_path = f"{self._scheme.site_packages}/{record_file_path}".lstrip("/")

    def _large(self, start: bytes, stream: ZipExtFile) -> Content:
        digest = hashlib.sha256(start)
        size = len(start)
        while chunk := stream.read(CHUNK):
            digest.update(chunk)
            size += len(chunk)
        return Content(size, digest.digest(), wheel=self._wheel, member=str(stream.name))

    def _folder(self, scheme: Scheme) -> str:
        return {
            "purelib": self._scheme.site_packages,
            "platlib": self._scheme.site_packages,
            "scripts": self._scheme.scripts,
            "data": self._scheme.data,
            "headers": f"{self._scheme.headers}/{self._owner}",
        }[scheme]

    def _keep(self, path: str, content: Content, mode: int) -> RecordEntry:
        normal = posixpath.normpath(path)
        if not any(normal.startswith(f"{root}/") for root in self._roots()):
            raise BuildError(f"{self._wheel.name} would install {path}, outside of where wheels may write")
        self.entries.append(Entry(normal.lstrip("/"), content, mode, self._owner))
        return RecordEntry(normal, Hash("sha256", encode_digest(content.digest)), content.size)

    def _roots(self) -> tuple[str, ...]:
        return (self._scheme.site_packages, self._scheme.scripts, self._scheme.data, self._scheme.headers)


def install_wheel(wheel: PlannedWheel, path: Path, scheme: InstallScheme) -> tuple[tuple[Entry, ...], str]:
    """The entries of one wheel without its RECORD, and RECORD's path.

    Raises:
        BuildError: the file is no wheel, or would write outside of its places.
    """
    destination = LayerDestination(path, wheel.name, scheme)
    try:
        with WheelFile.open(path) as source, warnings.catch_warnings():
            # It warns of byte-code inside wheels, and leaves it out; so it should.
            warnings.simplefilter("ignore", RuntimeWarning)
            install(source, destination, additional_metadata=_metadata(wheel))
    except (InstallerError, BadZipFile, KeyError, ValueError) as error:
        raise BuildError(f"{wheel.filename} cannot be installed", cause=str(error)) from error
    return tuple(destination.entries), destination.record_path


def _metadata(wheel: PlannedWheel) -> dict[str, bytes]:
    """Files that an installer adds to .dist-info (packaging specification "Recording installed projects")."""
    return {"INSTALLER": INSTALLER, **({"REQUESTED": b""} if wheel.requested else {})}


def record(path: str, entries: Sequence[Entry], scheme: InstallScheme, owner: str) -> Entry:
    """The RECORD of one distribution: every file it owns with hash and size, relative to site-packages."""
    root = scheme.site_packages.lstrip("/")
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    rows = [
        (
            posixpath.relpath(entry.path, root),
            f"sha256={encode_digest(entry.content.digest)}",
            entry.content.size,
        )
        for entry in entries
    ]
    for row in sorted(rows):
        writer.writerow(row)
    writer.writerow((posixpath.relpath(path, root), "", ""))
    return Entry(path, Content.of(text.getvalue().encode()), 0o644, owner)


def encode_digest(digest: bytes) -> str:
    """As RECORD writes a hash: URL-safe base64 without padding (PEP 376, PEP 427)."""
    return urlsafe_b64encode(digest).decode().rstrip("=")
