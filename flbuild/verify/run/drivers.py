"""Drivers that an image leaves to its host: what tells their absence from a broken package."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files

from flbuild.settings.toml import parse_toml

_MISSING = re.compile(r"([\w.+-]+\.so[\w.]*): cannot open shared object file")
"""What glibc's dynamic linker says of a library that it does not find."""


@dataclass(frozen=True)
class Driver:
    """A vendor's driver, by the libraries that it mounts into containers."""

    component: str
    device: str
    libraries: tuple[str, ...]

    def explains(self, errors: Iterable[str]) -> str | None:
        """The driver's library that a chain of errors stops at; None if it stops at something else."""
        missing = missing_libraries(errors)
        return missing[0] if missing and missing[0] in self.libraries else None


def load_drivers() -> dict[str, Driver]:
    """Every known driver, by the component that needs it."""
    text = files("flbuild.verify.run").joinpath("drivers.toml").read_text()
    tables = parse_toml(text)
    return {
        component: Driver(component, table["device"], tuple(table["libraries"]))
        for component, table in tables.items()
    }


def missing_libraries(errors: Iterable[str]) -> list[str]:
    """Libraries that were not found, in the order in which a chain of errors names them."""
    return [name for text in errors for name in _MISSING.findall(text)]
