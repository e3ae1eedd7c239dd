"""What one field of a recipe cannot say alone: rules across fields, each a function that yields findings.

A finding's subject is the key to look at, written as `packages[0].index`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from flbuild.finding import Finding
from flbuild.recipe.compat import Part, find_conflicts, load_rules
from flbuild.recipe.hygiene import check_architecture, check_secrets
from flbuild.recipe.model import Recipe
from flbuild.recipe.names import forbidden_by
from flbuild.recipe.targets import ExtendsError, target_chain
from flbuild.suggest import closest, perhaps

ENTRY_POINT_GROUPS = (
    "vllm.general_plugins",
    "vllm.io_processor_plugins",
    "vllm.platform_plugins",
    "vllm.stat_logger_plugins",
)
"""The groups vLLM 0.28 loads."""

DEFAULT_TARGET = "release"

WAIVER_NOTICE = timedelta(days=30)


@dataclass(frozen=True)
class Surroundings:
    """What a recipe is checked against; None where it is not known."""

    today: date
    indexes: Collection[str] | None = None
    checks: Collection[str] | None = None


def check_recipe(
    recipe: Recipe,
    *,
    indexes: Collection[str] | None = None,
    checks: Collection[str] | None = None,
    today: date | None = None,
) -> list[Finding]:
    """Everything that is wrong or doubtful across fields, errors first.

    Args:
        recipe: a valid recipe.
        indexes: ids of known indexes; None leaves them unchecked.
        checks: ids that a waiver may name; None leaves them unchecked.
        today: the day for expiry dates; the current one in UTC by default.
    """
    around = Surroundings(today or datetime.now(timezone.utc).date(), indexes, checks)
    findings = [finding for rule in RULES for finding in rule(recipe, around)]
    return sorted(findings, key=lambda finding: ("error", "warning", "info").index(finding.severity))


def _compatibility(recipe: Recipe, _around: Surroundings) -> Iterator[Finding]:
    parts = {part.name: part for part in _parts(recipe)}
    owned = {module for package in recipe.packages for module in package.provides_modules}
    for conflict in find_conflicts(load_rules(), parts, frozenset(owned | parts.keys())):
        rule = conflict.rule
        yield Finding(
            rule.severity,
            "compatibility",
            conflict.key,
            f"{conflict.what}: {rule.reason}",
            f"see {rule.source}",
        )


def _parts(recipe: Recipe) -> Iterator[Part]:
    yield Part("python", recipe.python.version, "python.version")
    yield Part("vllm", recipe.vllm.local_version, "vllm.version")
    for name, version in recipe.base.components.items():
        yield Part(name, version, f"base.components.{name}")
    for name, version in recipe.base.provides.items():
        yield Part(name, version, f"base.provides.{name}")
    for index, package in enumerate(recipe.packages):
        yield Part(package.name, package.version, f"packages[{index}]")


def _packages(recipe: Recipe, _around: Surroundings) -> Iterator[Finding]:
    first = {"vllm": "vllm", recipe.plugin.name: "plugin"}
    for index, package in enumerate(recipe.packages):
        key = f"packages[{index}]"
        if package.name in first:
            yield _error(
                "packages", key, f"{package.name} is already set by {first[package.name]}", "keep one"
            )
        first.setdefault(package.name, key)
        if package.name in recipe.base.provides:
            yield _error(
                "packages",
                key,
                f"{package.name} is in base.provides, which nothing may replace",
                f"drop one of the two; to replace it, move it to base.remove: [{package.name}]",
            )
    for name in recipe.base.provides:
        if name in recipe.base.remove:
            yield _error("packages", f"base.provides.{name}", f"{name} is in base.remove too", "keep one")
    for name, count in Counter(recipe.base.remove).items():
        if count > 1:
            yield _error("packages", "base.remove", f"{name} is there {count} times", "keep one")


def _indexes(recipe: Recipe, around: Surroundings) -> Iterator[Finding]:
    for index, package in enumerate(recipe.packages):
        if package.index is None or around.indexes is None or package.index in around.indexes:
            continue
        yield _error(
            "indexes",
            f"packages[{index}].index",
            f"unknown index '{package.index}'{perhaps(package.index, around.indexes)}",
            f"correct it, or add [index.{package.index}] with a url to flbuild.toml",
        )


def _forbidden(recipe: Recipe, _around: Surroundings) -> Iterator[Finding]:
    named = [(f"packages[{index}]", package.name) for index, package in enumerate(recipe.packages)]
    named += [(f"base.provides.{name}", name) for name in recipe.base.provides]
    named += [("vllm", "vllm"), ("plugin.name", recipe.plugin.name)]
    for target, settings in recipe.targets.items():
        named += [
            (f"targets.{target}.packages[{index}]", _requirement_name(text))
            for index, text in enumerate(settings.packages)
        ]
    for key, name in named:
        if pattern := forbidden_by(name, recipe.forbid):
            yield _error(
                "forbidden",
                key,
                f"{name} is required here and forbidden by '{pattern}'",
                "drop one of the two",
            )


def _targets(recipe: Recipe, _around: Surroundings) -> Iterator[Finding]:
    if DEFAULT_TARGET not in recipe.targets:
        near = closest(DEFAULT_TARGET, recipe.targets)
        yield _error(
            "targets",
            "targets",
            f"there is no '{DEFAULT_TARGET}', the target built when none is named"
            + (f"; perhaps '{near}' is meant to be it" if near else ""),
            f"add {DEFAULT_TARGET}: {{}}",
        )
    broken: dict[str, str] = {}
    for name in recipe.targets:
        try:
            target_chain(recipe, name)
        except ExtendsError as error:
            broken.setdefault(error.key, error.problem)
    for key, problem in broken.items():
        yield _error("targets", key, problem, "correct it")
    pins = {part.name: part for part in _parts(recipe)}
    for name, target in recipe.targets.items():
        for index, text in enumerate(target.packages):
            yield from _contradiction("targets", f"targets.{name}.packages[{index}]", text, pins)


def _overrides(recipe: Recipe, _around: Surroundings) -> Iterator[Finding]:
    pins = {part.name: part for part in _parts(recipe)}
    for index, text in enumerate(recipe.overrides):
        yield from _contradiction("overrides", f"overrides[{index}]", text, pins)
    names = Counter((_requirement_name(text), str(Requirement(text).marker)) for text in recipe.overrides)
    for (name, _marker), count in names.items():
        if count > 1:
            yield _error("overrides", "overrides", f"{name} is overridden {count} times", "keep one")


def _contradiction(check: str, key: str, text: str, pins: dict[str, Part]) -> Iterator[Finding]:
    """A requirement that excludes the version which the recipe pins itself."""
    requirement = Requirement(text)
    pin = pins.get(_requirement_name(text))
    if pin is None or requirement.specifier.contains(Version(pin.version), prereleases=True):
        return
    yield _error(
        check, key, f"'{text}' excludes {pin.name} {pin.version}, set by {pin.key}", "make them agree"
    )


def _waivers(recipe: Recipe, around: Surroundings) -> Iterator[Finding]:
    seen: dict[tuple[str, str], int] = {}
    for index, waiver in enumerate(recipe.waivers):
        key = f"waivers[{index}]"
        if around.checks is not None and waiver.check not in around.checks:
            yield _error(
                "waivers",
                f"{key}.check",
                f"there is no check '{waiver.check}'{perhaps(waiver.check, around.checks)}",
                "name the check whose finding is waived",
            )
        same = seen.setdefault((waiver.check, waiver.subject), index)
        if same != index:
            yield _error("waivers", key, f"waives the same finding as waivers[{same}]", "keep one")
        # Only a warning: an image must stay buildable from its lock, and verification reports what
        # the waiver no longer covers.
        if waiver.expires <= around.today:
            yield Finding(
                "warning",
                "waivers",
                f"{key}.expires",
                f"the waiver for '{waiver.subject}' expired on {waiver.expires} and no longer counts",
                "review it: solve the finding, or set a later day and say why",
            )
        elif waiver.expires <= around.today + WAIVER_NOTICE:
            yield Finding(
                "warning",
                "waivers",
                f"{key}.expires",
                f"the waiver for '{waiver.subject}' expires on {waiver.expires}",
                "review it before then",
            )


def _publication(recipe: Recipe, _around: Surroundings) -> Iterator[Finding]:
    if len(recipe.targets) > 1 and "{target}" not in recipe.image.tag:
        yield _error(
            "image", "image.tag", "every target would get the same tag", "add {target} to the template"
        )


def _plugin(recipe: Recipe, _around: Surroundings) -> Iterator[Finding]:
    for index, group in enumerate(recipe.plugin.entry_points):
        if group not in ENTRY_POINT_GROUPS:
            yield Finding(
                "warning",
                "entry-points",
                f"plugin.entry_points[{index}]",
                f"vLLM loads no group '{group}'{perhaps(group, ENTRY_POINT_GROUPS)}",
                "correct it, or drop it if something else loads it",
            )


def _python(recipe: Recipe, _around: Surroundings) -> Iterator[Finding]:
    for name in ("site_packages", "executable"):
        path = getattr(recipe.python, name)
        found = re.search(r"python(3\.\d+)(?:/|$)", path)
        if found and found[1] != recipe.python.version:
            yield _error(
                "python",
                f"python.{name}",
                f"{path} belongs to Python {found[1]}, python.version is {recipe.python.version}",
                "make them agree",
            )


def _hygiene(recipe: Recipe, _around: Surroundings) -> Iterator[Finding]:
    yield from check_secrets(recipe)
    yield from check_architecture(recipe)


def _requirement_name(text: str) -> str:
    return str(canonicalize_name(Requirement(text).name))


def _error(check: str, subject: str, message: str, remedy: str) -> Finding:
    return Finding("error", check, subject, message, remedy)


RULES: tuple[Callable[[Recipe, Surroundings], Iterator[Finding]], ...] = (
    _compatibility,
    _packages,
    _indexes,
    _forbidden,
    _targets,
    _overrides,
    _waivers,
    _publication,
    _plugin,
    _python,
    _hygiene,
)
