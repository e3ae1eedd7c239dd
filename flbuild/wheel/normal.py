"""Wheels whose bytes depend on their content alone, with tags that are true."""

from __future__ import annotations

import csv
import hashlib
import io
import stat
from base64 import urlsafe_b64encode
from pathlib import Path
from zipfile import ZIP_STORED, ZipFile, ZipInfo

from packaging.utils import parse_wheel_filename

from flbuild.errors import BuildError
from flbuild.files import atomic_writer

ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The earliest time a zip file can hold; when a wheel was made says nothing about what it is."""

PURE_TAG = "py3-none-any"
_NATIVE = (".so", ".pyd", ".dylib", ".dll")


def normalise(wheel: Path, folder: Path) -> Path:
    """Write `wheel` again into `folder`: members sorted, stored, with fixed times and modes; RECORD anew.

    Members are stored, not deflated: what zlib makes of them differs between its builds. A wheel without
    native code gets the tag py3-none-any, whatever its backend wrote; one with native code keeps its tag.

    Raises:
        BuildError: the file is not a wheel, or has native code under a tag that says it has none.
    """
    with ZipFile(wheel) as archive:
        contents = {
            member.filename: (archive.read(member), _mode(member))
            for member in archive.infolist()
            if not member.is_dir()
        }
    info = _dist_info(wheel, contents)
    native = sorted(name for name in contents if name.endswith(_NATIVE))
    name, version, build, tags = parse_wheel_filename(wheel.name)
    filename = wheel.name
    if not native:
        filename = "-".join([*wheel.name.split("-")[: 3 if build else 2], PURE_TAG]) + ".whl"
        contents[f"{info}/WHEEL"] = (_pure(contents[f"{info}/WHEEL"][0]), 0o644)
    elif any(tag.platform == "any" for tag in tags):
        raise BuildError(
            f"{name} {version} has native code ({native[0]}) in a wheel tagged for any platform",
            cause="the build backend was told that the project is pure Python",
            remedy="correct the tag where the project builds its wheel",
        )
    contents.pop(f"{info}/RECORD", None)
    target = folder / filename
    with atomic_writer(target) as stream, ZipFile(stream, "w", ZIP_STORED) as archive:
        # dist-info last, as PEP 427 recommends: an installer can then read it from the end of the file.
        for path in sorted(contents, key=lambda path: (path.startswith(f"{info}/"), path)):
            content, mode = contents[path]
            _add(archive, path, content, mode)
        _add(archive, f"{info}/RECORD", _record(contents, f"{info}/RECORD"), 0o644)
    return target


def _mode(member: ZipInfo) -> int:
    """Only whether a file is executable survives, not the builder's umask."""
    return 0o755 if (member.external_attr >> 16) & stat.S_IXUSR else 0o644


def _dist_info(wheel: Path, contents: dict[str, tuple[bytes, int]]) -> str:
    folders = {path.split("/", 1)[0] for path in contents if path.endswith(".dist-info/WHEEL")}
    if len(folders) != 1:
        raise BuildError(f"{wheel.name} is not a wheel: it holds {len(folders)} .dist-info folders")
    return folders.pop()


def _pure(content: bytes) -> bytes:
    """The WHEEL file with the one true tag."""
    kept = [
        line
        for line in content.decode().splitlines()
        if line.strip() and not line.startswith(("Root-Is-Purelib:", "Tag:"))
    ]
    return ("\n".join([*kept, "Root-Is-Purelib: true", f"Tag: {PURE_TAG}"]) + "\n").encode()


def _add(archive: ZipFile, path: str, content: bytes, mode: int) -> None:
    member = ZipInfo(path, ZIP_EPOCH)
    member.create_system = 3  # Unix, on any host: it decides how the mode below is read
    member.external_attr = (stat.S_IFREG | mode) << 16
    archive.writestr(member, content)


def _record(contents: dict[str, tuple[bytes, int]], own: str) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for path in sorted(contents):
        content = contents[path][0]
        digest = urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
        writer.writerow([path, f"sha256={digest}", len(content)])
    writer.writerow([own, "", ""])
    return text.getvalue().encode()
