"""What a wheel says about itself, and where that is not true."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import IO
from zipfile import BadZipFile, ZipFile

from installer.exceptions import InstallerError
from installer.sources import WheelFile
from packaging.metadata import RawMetadata, parse_email
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from flbuild.errors import BuildError
from flbuild.finding import Finding
from flbuild.index.tags import Environment, wheel_tags

ELF_MACHINES = {62: "x86_64", 183: "aarch64"}
"""e_machine of an ELF header (System V ABI, processor supplements)."""

_GLIBC = re.compile(rb"\0GLIBC_2\.(\d+)(?=[.\0])")
NATIVE = re.compile(r"\.so(\.[0-9.]+)?$")
_CHUNK = 1 << 22
HEADER_SIZE = 20
"""Bytes of an ELF header up to and with e_machine."""

_OVERLAP = 16
"""Bytes kept from the chunk before, so that a version name across the border is found."""

_HEADER = re.compile(
    r"(?:Metadata-Version|Name|Version|Requires-Dist|Requires-Python|Provides-Extra|Classifier|Dynamic"
    r"|Requires-External|License-File|Project-URL):\s"
)


@dataclass(frozen=True)
class NativeFile:
    """A shared library in a wheel. `glibc_minor` is the newest 2.N of its symbol versions."""

    path: str
    machine: str
    glibc_minor: int | None


@dataclass(frozen=True)
class WheelFacts:
    """The name, version and metadata of a wheel."""

    name: str
    version: str
    metadata: bytes
    raw: RawMetadata

    @property
    def requires(self) -> tuple[str, ...]:
        """Its Requires-Dist lines."""
        return tuple(self.raw.get("requires_dist", ()))

    @property
    def requires_python(self) -> str | None:
        """Its Requires-Python."""
        return self.raw.get("requires_python")


def read_facts(path: Path) -> WheelFacts:
    """The facts of a wheel file.

    Raises:
        BuildError: it is no wheel.
    """
    try:
        name, version, _, _ = parse_wheel_filename(path.name)
        with ZipFile(path) as archive:
            members = [
                member for member in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", member)
            ]
            if len(members) != 1:
                raise BuildError(f"{path.name} has {len(members)} METADATA files instead of one")
            metadata = archive.read(members[0])
    except (InvalidWheelFilename, BadZipFile) as error:
        raise BuildError(f"{path} is not a wheel", cause=str(error)) from error
    return WheelFacts(str(name), str(version), metadata, parse_email(metadata)[0])


def check_metadata(filename: str, metadata: bytes) -> list[Finding]:
    """Whether METADATA is the named wheel's, and whether all its headers can be seen."""
    raw, _ = parse_email(metadata)
    findings = []
    hidden = _hidden_headers(metadata.decode(errors="replace"))
    if hidden:
        findings.append(
            _error(
                filename,
                f"METADATA has an early blank line that hides {len(hidden)} headers from installers, "
                f"the first is '{hidden[0]}'",
                "rebuild the wheel; remove the blank line from METADATA",
            )
        )
    name, version, _, _ = parse_wheel_filename(filename)
    if canonicalize_name(raw.get("name", "")) != name or not _same_version(raw.get("version", ""), version):
        said = f"{raw.get('name', 'no name')} {raw.get('version', 'without a version')}"
        findings.append(_error(filename, f"METADATA says {said}", "rename or rebuild the wheel"))
    for text in raw.get("requires_dist", ()):
        try:
            Requirement(text)
        except InvalidRequirement:
            findings.append(_error(filename, f"Requires-Dist '{text}' cannot be parsed", "rebuild the wheel"))
    return findings


def check_members(filename: str, members: Iterable[str]) -> list[Finding]:
    """Whether a wheel that is tagged for any platform holds files named like shared libraries."""
    native = next((member for member in members if NATIVE.search(member)), None)
    if native is None or not any(tag.platform == "any" for tag in wheel_tags(filename)):
        return []
    return [_any_tag(filename, native)]


def check_native(filename: str, member: str, head: bytes, environment: Environment) -> list[Finding]:
    """Whether a shared library that begins with `head` is for the machine of its wheel and of the image."""
    native = _read_elf(member, BytesIO(head), deep=False)
    if native is None:
        return []
    return _check_natives(filename, (native,)) or _check_environment(filename, (native,), environment)


def states_no_glibc(filename: str) -> bool:
    """Whether a wheel for Linux does not say which C library it needs, so that only its content tells."""
    platforms = {tag.platform for tag in wheel_tags(filename)}
    return any(name.startswith("linux_") for name in platforms)


def check_wheel(path: Path, environment: Environment | None = None, *, deep: bool = True) -> list[Finding]:
    """Everything that is wrong with a wheel file: RECORD, METADATA, and native code that its name denies.

    Args:
        environment: where it will be installed; None checks the wheel against its own name only.
        deep: read all of it. Otherwise hashes of RECORD and the glibc of libraries are left out, which takes
            milliseconds where a wheel of PyTorch takes ten seconds.

    Raises:
        BuildError: it is no wheel.
    """
    findings = check_metadata(path.name, read_facts(path).metadata)
    try:
        with WheelFile.open(path) as source:
            source.validate_record(validate_contents=deep)
    except InstallerError as error:
        issues = "; ".join(str(issue) for issue in getattr(error, "issues", [error])[:3])
        findings.append(
            _error(path.name, f"RECORD does not match the content: {issues}", "rebuild the wheel")
        )
    natives = native_files(path, deep=deep)
    findings += _check_natives(path.name, natives)
    if environment is not None:
        if environment.rank(path.name) is None:
            reason = environment.why_not([path.name])
            findings.append(_error(path.name, f"it does not fit the image: {reason}", "choose another wheel"))
        findings += _check_environment(path.name, natives, environment)
    return findings


def pinned(requires: Iterable[str], names: Iterable[str]) -> tuple[str, ...]:
    """Those requirements that fix one of the named distributions to one version."""
    wanted = {str(canonicalize_name(name)) for name in names}
    return tuple(
        text
        for text in requires
        if canonicalize_name((requirement := Requirement(text)).name) in wanted
        and any(part.operator in ("==", "===") for part in requirement.specifier)
    )


def native_files(path: Path, *, deep: bool = True) -> tuple[NativeFile, ...]:
    """Every ELF file in a wheel that is a shared library by its name; their glibc only if `deep`."""
    return tuple(_native_files(path, deep=deep))


def _native_files(path: Path, *, deep: bool) -> Iterator[NativeFile]:
    with ZipFile(path) as archive:
        for member in archive.infolist():
            if NATIVE.search(member.filename):
                with archive.open(member) as stream:
                    native = _read_elf(member.filename, stream, deep=deep)
                if native is not None:
                    yield native


def _read_elf(name: str, stream: IO[bytes], *, deep: bool) -> NativeFile | None:
    chunk = stream.read(_CHUNK if deep else HEADER_SIZE)
    if chunk[:4] != b"\x7fELF" or len(chunk) < HEADER_SIZE:
        return None
    order = "<" if chunk[5] == 1 else ">"
    (machine,) = struct.unpack_from(f"{order}H", chunk, 18)
    newest = -1
    tail = b""
    # The names of needed symbol versions stand in .dynstr, which is found by its NUL-terminated strings: a
    # library may have hundreds of megabytes, and this reads it once, in pieces.
    while deep and chunk:
        newest = max([newest, *(int(minor) for minor in _GLIBC.findall(tail + chunk))])
        tail = chunk[-_OVERLAP:]
        chunk = stream.read(_CHUNK)
    return NativeFile(name, ELF_MACHINES.get(machine, f"machine {machine}"), newest if newest >= 0 else None)


def _check_natives(filename: str, natives: tuple[NativeFile, ...]) -> list[Finding]:
    platforms = {tag.platform for tag in wheel_tags(filename)}
    findings = []
    if "any" in platforms and natives:
        findings.append(_any_tag(filename, f"{natives[0].path} for {natives[0].machine}"))
    for native in natives:
        if "any" not in platforms and not any(name.endswith(f"_{native.machine}") for name in platforms):
            message = f"{native.path} is for {native.machine}, the name says {', '.join(sorted(platforms))}"
            findings.append(_error(filename, message, "rebuild the wheel for the right machine"))
    return findings


def _check_environment(
    filename: str, natives: tuple[NativeFile, ...], environment: Environment
) -> list[Finding]:
    findings = []
    for native in natives:
        if native.machine != environment.machine:
            message = f"{native.path} is for {native.machine}, the image for {environment.machine}"
            findings.append(_error(filename, message, "choose the wheel of the image's machine"))
        elif native.glibc_minor is not None and native.glibc_minor > environment.glibc_minor:
            message = f"{native.path} needs glibc 2.{native.glibc_minor}, the base has {environment.glibc}"
            findings.append(_error(filename, message, "choose an older build, or a newer base"))
    return findings


def _hidden_headers(text: str) -> list[str]:
    """Header lines right after the first blank line; a description does not begin with one."""
    lines = text.splitlines()
    blank = next((number for number, line in enumerate(lines) if not line.strip()), len(lines))
    rest = [line for line in lines[blank:] if line.strip()]
    if not rest or not _HEADER.match(rest[0]):
        return []
    return [line for line in rest if _HEADER.match(line)]


def _any_tag(filename: str, native: str) -> Finding:
    message = f"it is tagged 'any' and holds {native}"
    return _error(filename, message, "rebuild it with the tag of the platform it was built for")


def _same_version(text: str, version: Version) -> bool:
    try:
        return Version(text) == version
    except InvalidVersion:
        return False


def _error(subject: str, message: str, remedy: str) -> Finding:
    return Finding("error", "wheel", subject, message, remedy)
