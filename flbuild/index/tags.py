"""Which wheels fit an image: its Python, its architecture and its C library."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from flbuild.errors import UsageError

MACHINES = {"linux/amd64": "x86_64", "linux/arm64": "aarch64"}
"""The machine name of each platform in wheel tags and in ELF files."""

OLDEST_GLIBC = {"x86_64": 5, "aarch64": 17}
"""Minor version of the first glibc 2 that each machine's manylinux tags know (PEP 513, PEP 599)."""

LEGACY = {5: "manylinux1", 12: "manylinux2010", 17: "manylinux2014"}
"""Names from before PEP 600, by the minor version of glibc 2 that they stand for."""

_GLIBC_TAG = re.compile(r"manylinux_2_(\d+)_")


@dataclass(frozen=True)
class Environment:
    """Where wheels will run.

    Args:
        python: major.minor of CPython.
        platform: `linux/amd64` or `linux/arm64`.
        glibc: version of the base's C library, for example 2.36.
    """

    python: str
    platform: str
    glibc: str

    @property
    def machine(self) -> str:
        """The architecture in wheel tags."""
        return MACHINES[self.platform]

    @property
    def glibc_minor(self) -> int:
        """The minor version of the C library; its major version is 2 everywhere."""
        major, _, minor = self.glibc.partition(".")
        if major != "2" or not minor.isdigit():
            raise UsageError(
                f"'{self.glibc}' is not a version of glibc", cause="flbuild knows glibc 2.N only"
            )
        return int(minor)

    @cached_property
    def tags(self) -> tuple[Tag, ...]:
        """Every tag a wheel may have, the best first."""
        platforms = []
        for minor in range(self.glibc_minor, OLDEST_GLIBC[self.machine] - 1, -1):
            platforms.append(f"manylinux_2_{minor}_{self.machine}")
            if minor in LEGACY:
                platforms.append(f"{LEGACY[minor]}_{self.machine}")
        platforms.append(f"linux_{self.machine}")
        major, minor_text = self.python.split(".")
        version = (int(major), int(minor_text))
        interpreter = f"cp{major}{minor_text}"
        return (
            *cpython_tags(version, [interpreter], platforms),
            *compatible_tags(version, interpreter, platforms),
        )

    @cached_property
    def _ranks(self) -> dict[Tag, int]:
        return {tag: rank for rank, tag in reversed(list(enumerate(self.tags)))}

    def rank(self, filename: str) -> int | None:
        """How well a wheel fits, 0 the best; None when it does not fit at all."""
        return min((self._ranks[tag] for tag in wheel_tags(filename) if tag in self._ranks), default=None)

    def best(self, filenames: Iterable[str]) -> str | None:
        """The wheel that fits best, or None; the same one whatever the order of `filenames`."""
        ranked = [(rank, -_build(name), name) for name in filenames if (rank := self.rank(name)) is not None]
        return min(ranked)[2] if ranked else None

    def why_not(self, filenames: Iterable[str]) -> str:
        """Why none of these wheels fits, in words."""
        names = sorted(filenames)
        tags = {name: wheel_tags(name) for name in names}
        newer = [
            int(found[1])
            for name in names
            for tag in tags[name]
            if tag.platform.endswith(f"_{self.machine}") and (found := _GLIBC_TAG.match(tag.platform))
            if Environment(self.python, self.platform, f"2.{found[1]}").rank(name) is not None
        ]
        if newer:
            return f"its wheels need glibc 2.{min(newer)} or later, and the base has {self.glibc}"
        if not any(
            tag.platform == "any" or tag.platform.endswith(f"_{self.machine}")
            for name in names
            for tag in tags[name]
        ):
            return f"it has no wheel for {self.machine}"
        return f"it has no wheel for CPython {self.python} on {self.machine}"


def wheel_tags(filename: str) -> frozenset[Tag]:
    """The tags in a wheel's name; none if it is not the name of a wheel."""
    try:
        return parse_wheel_filename(filename)[3]
    except InvalidWheelFilename:
        return frozenset()


def _build(filename: str) -> int:
    build = parse_wheel_filename(filename)[2]
    return build[0] if build else 0
