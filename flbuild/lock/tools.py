"""The build tools of the lock: backends that make wheels, pure Python, the same on every machine."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.resources import files

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from flbuild.errors import RecipeError
from flbuild.index.tags import Environment
from flbuild.lock.model import LockedFile
from flbuild.lock.pin import Pinner
from flbuild.lock.resolve import INDEX, Question, Resolved, Resolver, pins

OLDEST, NEWEST = "3.10", "3.13"
"""The Pythons that run flbuild, and so the build tools."""

_HOST = ("linux/amd64", "2.17")
"""Any platform: only wheels that do not depend on it are accepted."""


def tool_requirements() -> tuple[str, ...]:
    """The build tools that wheels are made with, as the package data of `flbuild.wheel` names them."""
    text = files("flbuild.wheel").joinpath("build-tools.txt").read_text(encoding="utf-8")
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return tuple(line for line in lines if line)


def satisfied(requirements: Iterable[str], tools: Iterable[LockedFile]) -> bool:
    """Whether the locked tools are what the requirements ask for."""
    versions = {tool.name: tool.version for tool in tools}
    return all(
        (version := versions.get(canonicalize_name(requirement.name))) is not None
        and requirement.specifier.contains(version, prereleases=True)
        for requirement in map(Requirement, requirements)
    )


def lock_tools(
    requirements: tuple[str, ...],
    resolver: Resolver,
    pinner: Pinner,
    *,
    old: tuple[LockedFile, ...],
    moving: frozenset[str] = frozenset(),
) -> tuple[LockedFile, ...]:
    """Pins of the tools and of what they need, valid for every Python that runs flbuild.

    Raises:
        RecipeError: a tool exists only as a wheel for one platform, or for some of the Pythons.
    """
    preferences = {tool.name: tool.version for tool in old if tool.name not in moving}
    try:
        answer = resolver.resolve(Question(environment(OLDEST), requirements, preferences=preferences))
        # The newest Python may need other helpers than the oldest; versions that suit both are the oldest's.
        newest = resolver.resolve(Question(environment(NEWEST), requirements, constraints=pins(answer)))
    except RecipeError as error:
        raise RecipeError(
            f"no versions of the build tools suit Python {OLDEST} and {NEWEST}",
            cause=error.cause,
            remedy="correct flbuild/wheel/build-tools.txt",
        ) from error
    everything = {item.name: item for item in (*newest, *answer)}
    return pinner.pin_all((_pure(everything[name]) for name in sorted(everything)), INDEX)


def environment(python: str) -> Environment:
    """Where the build tools run, as far as it matters to them."""
    return Environment(python, *_HOST)


def _pure(item: Resolved) -> Resolved:
    wheels = tuple(wheel for wheel in item.wheels if wheel.filename.endswith("-none-any.whl"))
    if not wheels:
        raise RecipeError(
            f"build tool {item.name} {item.version} has no wheel for every platform",
            remedy="require a version that has one in flbuild/wheel/build-tools.txt",
        )
    return Resolved(item.name, item.version, wheels)
