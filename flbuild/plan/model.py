"""A plan: base, ordered layers and config. Pure data; both builders consume it, neither knows recipes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from flbuild.lock.model import LockedBase


@dataclass(frozen=True)
class PlannedWheel:
    """A wheel to install. `origin` says how its file is had: an index, a built source, or this repository.

    `sha256` and `size` are None for the plugin's wheel until it is built. `requested` tells what somebody
    asked for by name from what only came along, as pip's REQUESTED does.
    """

    name: str
    version: str
    filename: str
    sha256: str | None
    size: int | None
    origin: Literal["index", "source", "plugin"]
    index: str | None = None
    requested: bool = False


@dataclass(frozen=True)
class PlannedLayer:
    """One layer: files to white out of the base, or wheels to install, in that order of kinds."""

    id: str
    kind: Literal["remove", "wheels"]
    reason: str
    wheels: tuple[PlannedWheel, ...] = ()
    whiteouts: tuple[str, ...] = ()


@dataclass(frozen=True)
class InstallScheme:
    """Where wheels go, as absolute POSIX paths inside the image."""

    python_version: str
    executable: str
    site_packages: str
    scripts: str
    data: str
    headers: str
    bytecode: bool


@dataclass(frozen=True)
class PlannedConfig:
    """What the image config gets on top of the base's: OCI runtime config keys and labels."""

    env: tuple[tuple[str, str], ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()
    workdir: str | None = None
    created: str = ""


@dataclass(frozen=True)
class PlannedUnresolved:
    """A missing input; a plan with one can be read but not built."""

    name: str
    reason: str


@dataclass(frozen=True)
class Plan:
    """Everything a builder needs to know, in the order it is done.

    `notes` say what the image is without, and why. `revision` is empty for a copy that records no commit.
    """

    name: str
    target: str
    os: str
    architecture: str
    base: LockedBase | None
    scheme: InstallScheme
    layers: tuple[PlannedLayer, ...]
    config: PlannedConfig
    epoch: int
    revision: str
    repository: str
    tag: str
    notes: tuple[str, ...] = ()
    unresolved: tuple[PlannedUnresolved, ...] = ()
