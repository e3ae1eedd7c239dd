"""The build context: small files that are written here, and the names of pinned files that join them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import installer

import flbuild
from flbuild.index.store import FileRef
from flbuild.lock.model import GitSource, LockedDebianBase, SourceFile
from flbuild.render.stages import EMPTY_TORCH_FOLDER, MOUNTS, PIP, SourceStage, Stages, Step, requirements
from flbuild.wheel.builder import EMPTY_TORCH

BASE_TAR = "base/root.tar.gz"
PIP_FILE = "tools/pip.whl"
"""Under a name of its own: pip runs out of its wheel, in bases that have none too."""

_PACKAGE = Path(flbuild.__file__).parent
_TOOLS = {
    "tools/build_wheel.py": "render/tools/build_wheel.py",
    "tools/install.py": "render/tools/install.py",
    **{
        f"tools/library/flbuild/{name}.py": f"{name}.py"
        for name in (
            *("__init__", "errors", "files", "wheel/__init__", "wheel/normal"),
            *("build/__init__", "build/oci/__init__", "build/oci/bytecode", "build/oci/compile_worker"),
            *("build/oci/conflicts", "build/oci/contents", "build/oci/entries", "build/oci/install"),
        )
    },
}
"""What of flbuild itself runs inside the image while it is built, by its place in the context."""


_OF_A_WHEEL = ("name", "version", "filename", "sha256", "requested")


@dataclass(frozen=True)
class Built:
    """A wheel that was built on this machine, from this repository."""

    filename: str
    sha256: str


@dataclass(frozen=True)
class Wanted:
    """A pinned file at a place of the context."""

    path: str
    pin: FileRef | Built | GitSource | LockedDebianBase


def context_texts(stages: Stages, templates: Path) -> dict[str, bytes]:
    """Every file but the Dockerfile that is made here, by its path in the context."""
    texts: dict[str, bytes] = {}
    for step in stages.steps:
        if step.layer.kind == "wheels":
            texts[f"{step.folder}/layer.json"] = _layer(stages, step)
    for stage in stages.sources:
        texts[f"{stage.folder}/SHA256SUMS"] = _sums(_source_sha256(stage), f"{MOUNTS}/source/{stage.archive}")
    if isinstance(stages.base, LockedDebianBase):
        sha256 = stages.base.layer.digest.removeprefix("sha256:")
        texts["base/SHA256SUMS"] = _sums(sha256, f"{MOUNTS}/{BASE_TAR}")
    tools = [tool for tool in stages.tools if tool.name != PIP]
    texts["tools/requirements.txt"] = requirements(tools).encode()
    texts["tools/pip.conf"] = (templates / "pip.conf").read_bytes().replace(b"\r\n", b"\n")
    texts |= {place: (_PACKAGE / path).read_bytes() for place, path in _TOOLS.items()}
    texts |= _installer()
    texts |= {
        f"{EMPTY_TORCH_FOLDER}/{path.relative_to(EMPTY_TORCH).as_posix()}": path.read_bytes()
        for path in EMPTY_TORCH.rglob("*.py")
    }
    return dict(sorted(texts.items()))


def wanted_files(stages: Stages) -> tuple[Wanted, ...]:
    """Every pinned file that the context needs."""
    found = [*_base(stages), *_tools(stages)]
    found += [item for stage in stages.sources for item in _source(stage)]
    found += [item for step in stages.steps for item in _wheels(step)]
    return tuple(dict.fromkeys(found))


def _base(stages: Stages) -> Iterator[Wanted]:
    if isinstance(stages.base, LockedDebianBase):
        yield Wanted(BASE_TAR, stages.base)


def _tools(stages: Stages) -> Iterator[Wanted]:
    for tool in stages.tools:
        place = PIP_FILE if tool.name == PIP else f"tools/wheels/{tool.filename}"
        yield Wanted(place, FileRef(tool.name, tool.index, tool.filename, tool.sha256, tool.size))


def _source(stage: SourceStage) -> Iterator[Wanted]:
    pin = stage.source.source
    path = f"{stage.folder}/{stage.archive}"
    if isinstance(pin, SourceFile):
        yield Wanted(path, FileRef(stage.source.name, pin.index, pin.filename, pin.sha256, pin.size))
    else:
        yield Wanted(path, pin)


def _wheels(step: Step) -> Iterator[Wanted]:
    """Wheels from sources are not among them: a stage builds them."""
    for wheel in step.layer.wheels:
        path = f"{step.folder}/{wheel.filename}"
        if wheel.origin == "plugin":
            yield Wanted(path, Built(wheel.filename, str(wheel.sha256)))
        elif wheel.index is not None:
            pin = FileRef(wheel.name, wheel.index, wheel.filename, str(wheel.sha256), wheel.size or 0)
            yield Wanted(path, pin)


def _source_sha256(stage: SourceStage) -> str:
    pin = stage.source.source
    return pin.sha256 if isinstance(pin, SourceFile) else pin.archive_sha256


def _layer(stages: Stages, step: Step) -> bytes:
    """What `tools/install.py` installs, and where to."""
    wheels = [
        {key: value for key, value in asdict(wheel).items() if key in _OF_A_WHEEL}
        for wheel in sorted(step.layer.wheels, key=lambda wheel: wheel.name)
    ]
    content = {"scheme": asdict(stages.plan.scheme), "wheels": wheels}
    return (json.dumps(content, indent=2) + "\n").encode()


def _installer() -> dict[str, bytes]:
    """The library that lays out wheels, as it is here: flbuild depends on one exact version of it."""
    folder = Path(installer.__file__).parent
    return {
        f"tools/library/installer/{path.relative_to(folder).as_posix()}": path.read_bytes()
        for path in folder.rglob("*.py")
    }


def _sums(sha256: str, path: str) -> bytes:
    """As `sha256sum --check` reads it."""
    return f"{sha256}  {path}\n".encode()
