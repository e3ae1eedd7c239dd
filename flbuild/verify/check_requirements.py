"""What `pip check` says, for the image's platform; the recipe's waivers are the reviewed exceptions.

Without a container only metadata in layers that were read count; a container shows those of the base too,
and what its own pip says, where it has one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from flbuild.finding import Finding
from flbuild.index.markers import applies, marker_environment
from flbuild.verify.context import Verification

CHECK = "requirements"

_REMEDY = "choose versions that agree, or add a reviewed waiver to the recipe"

_CONFLICT = re.compile(r"(\S+) \S+ has requirement (.+), but you have (\S+ \S+)\.$")
_MISSING = re.compile(r"(\S+) \S+ requires (.+), which is not installed\.$")


def requirements(verification: Verification) -> Iterator[Finding]:
    """Unmet requirements of what is installed."""
    found = dict(unmet(verification))
    for line in (verification.observed and verification.observed.pip_check) or ():
        subject, message = _read_line(line)
        found.setdefault(subject, message)
    for subject, message in found.items():
        yield Finding("error", CHECK, subject, message, _REMEDY)
    if verification.observed is not None:
        return
    unread = [item.name for item in verification.installed if item.from_base]
    if unread:
        yield Finding(
            "info",
            CHECK,
            "base",
            f"requirements of {len(unread)} distributions are not checked: they are in layers of the locked "
            "base, which were not read",
        )


def unmet(verification: Verification) -> Iterator[tuple[str, str]]:
    """Pairs of `DIST needs REQUIREMENT` and what is wrong; requirements of extras do not count."""
    observed = verification.observed
    installed = verification.installed if observed is None else observed.installed
    have = {item.name: item.version for item in installed}
    for package in verification.recipe.packages:
        for module, version in package.provides_modules.items():
            # A distribution that owns another one's module stands in for it.
            have.setdefault(str(canonicalize_name(module)), version)
    environment = marker_environment(verification.recipe.platform, verification.recipe.python.version)
    for item in installed:
        for text in item.requires:
            try:
                requirement = Requirement(text)
            except InvalidRequirement:
                yield f"{item.name} needs {text}", "the requirement cannot be read"
                continue
            if not applies(requirement, environment):
                continue
            subject = _subject(item.name, requirement)
            found = have.get(str(canonicalize_name(requirement.name)))
            if found is None:
                yield subject, f"{requirement.name} is not installed"
            elif not _satisfies(requirement, found):
                yield subject, f"{requirement.name} {found} is installed"


def _subject(name: str, requirement: Requirement) -> str:
    return f"{name} needs {requirement.name}{requirement.specifier}"


def _read_line(line: str) -> tuple[str, str]:
    """Subject and message of a line of `pip check`, the same as ours where it tells of a requirement."""
    if match := _CONFLICT.match(line):
        message = f"{match[3]} is installed"
    elif match := _MISSING.match(line):
        message = f"{Requirement(match[2]).name} is not installed"
    else:
        return f"pip check: {line}", "pip finds fault with it"
    return _subject(str(canonicalize_name(match[1])), Requirement(match[2])), message


def _satisfies(requirement: Requirement, version: str) -> bool:
    try:
        return requirement.specifier.contains(Version(version), prereleases=True)
    except InvalidVersion:
        return not requirement.specifier
