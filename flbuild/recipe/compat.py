"""What works together, as data: `compat.yaml` holds the facts, each with its source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Annotated, Literal

import yaml
from packaging.specifiers import SpecifierSet
from packaging.version import Version
from pydantic import AfterValidator, Field, TypeAdapter

from flbuild.recipe.model import StrictModel


def _specifier(text: str) -> str:
    SpecifierSet(text)
    return text


Specifier = Annotated[str, AfterValidator(_specifier)]


class Rule(StrictModel):
    """One fact about versions; `compat.yaml` explains the fields."""

    when: dict[str, Specifier] = Field(min_length=1)
    need: dict[str, Specifier] = Field(default_factory=dict)
    equal: dict[str, Literal["minor", "exact"]] = Field(default_factory=dict)
    without: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    severity: Literal["error", "warning"]
    reason: str
    source: str = Field(pattern=r"^https://")


@dataclass(frozen=True)
class Part:
    """One thing in a recipe: its version and the key that says so."""

    name: str
    version: str
    key: str


@dataclass(frozen=True)
class Conflict:
    """A rule that a recipe breaks: the key to look at first, and what is wrong."""

    rule: Rule
    key: str
    what: str


def load_rules() -> tuple[Rule, ...]:
    """The rules that come with flbuild."""
    text = files("flbuild.recipe").joinpath("compat.yaml").read_text(encoding="utf-8")
    return TypeAdapter(tuple[Rule, ...]).validate_python(yaml.safe_load(text))


def find_conflicts(
    rules: tuple[Rule, ...], parts: Mapping[str, Part], modules: frozenset[str]
) -> Iterator[Conflict]:
    """Every rule that does not hold.

    Args:
        rules: the facts.
        parts: what the recipe holds, by name.
        modules: top-level modules that some distribution of the recipe owns.
    """
    for rule in rules:
        found = [
            parts[name] for name, wanted in rule.when.items() if name in parts and _in(parts[name], wanted)
        ]
        if len(found) < len(rule.when):
            continue
        subject = " with ".join(_shown(part) for part in found)
        broken = [*_versions(rule, found[0], parts), *_absences(rule, parts, modules)]
        if not (rule.need or rule.equal or rule.without or rule.modules):
            broken = ["is known to fail"]
        yield from (Conflict(rule, found[0].key, f"{subject} {what}") for what in broken)


def _versions(rule: Rule, subject: Part, parts: Mapping[str, Part]) -> Iterator[str]:
    for name, wanted in rule.need.items():
        if name in parts and not _in(parts[name], wanted):
            yield f"needs {name} {wanted}, but {_shown(parts[name])}"
    for name, how in rule.equal.items():
        if name in parts and _comparable(parts[name], how) != _comparable(subject, how):
            yield f"needs {name} {'.'.join(map(str, _comparable(subject, how)))}, but {_shown(parts[name])}"


def _absences(rule: Rule, parts: Mapping[str, Part], modules: frozenset[str]) -> Iterator[str]:
    for name in rule.without:
        if name in parts:
            yield f"cannot be beside {_shown(parts[name])}"
    for module in rule.modules:
        if module not in modules:
            yield f"needs the module {module}, which nothing in the recipe owns"


def _shown(part: Part) -> str:
    return f"{part.key} ({part.name} {part.version})"


def _in(part: Part, wanted: str) -> bool:
    return SpecifierSet(wanted).contains(Version(part.version), prereleases=True)


def _comparable(part: Part, how: Literal["minor", "exact"]) -> tuple[int | str, ...]:
    version = Version(part.version)
    return version.release[:2] if how == "minor" else (version.public,)
