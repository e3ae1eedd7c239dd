"""What `pip check` says, for the image's platform; the recipe's waivers are the reviewed exceptions."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from flbuild.finding import Finding
from flbuild.index.markers import applies, marker_environment
from flbuild.verify.context import Verification

CHECK = "requirements"


def requirements(verification: Verification) -> Iterator[Finding]:
    """Unmet requirements of what is installed."""
    remedy = "choose versions that agree, or add a reviewed waiver to the recipe"
    for subject, message in dict.fromkeys(unmet(verification)):
        yield Finding("error", CHECK, subject, message, remedy)
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
    have = {item.name: item.version for item in verification.installed}
    for package in verification.recipe.packages:
        for module, version in package.provides_modules.items():
            # A distribution that owns another one's module stands in for it.
            have.setdefault(str(canonicalize_name(module)), version)
    environment = marker_environment(verification.recipe.platform, verification.recipe.python.version)
    for item in verification.installed:
        for text in item.requires:
            try:
                requirement = Requirement(text)
            except InvalidRequirement:
                yield f"{item.name} needs {text}", "the requirement cannot be read"
                continue
            if not applies(requirement, environment):
                continue
            subject = f"{item.name} needs {requirement.name}{requirement.specifier}"
            found = have.get(str(canonicalize_name(requirement.name)))
            if found is None:
                yield subject, f"{requirement.name} is not installed"
            elif not _satisfies(requirement, found):
                yield subject, f"{requirement.name} {found} is installed"


def _satisfies(requirement: Requirement, version: str) -> bool:
    try:
        return requirement.specifier.contains(Version(version), prereleases=True)
    except InvalidVersion:
        return not requirement.specifier
