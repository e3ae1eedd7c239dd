"""Labels: who made the image, from which commit, on which base."""

from __future__ import annotations

from collections.abc import Iterator

from flbuild.finding import Finding
from flbuild.lock.model import LockedImageBase
from flbuild.verify.context import Verification

_PREFIX = "org.opencontainers.image"


def labels(verification: Verification) -> Iterator[Finding]:
    """Title and base are what the lock says; of a recorded image also revision, version and time."""
    found = verification.subject.labels
    for key, value in _wanted(verification).items():
        got = found.get(f"{_PREFIX}.{key}")
        if got is None:
            yield _error(f"{_PREFIX}.{key}", f"it is missing; the lock says '{value}'")
        elif got != value:
            yield _error(f"{_PREFIX}.{key}", f"it is '{got}', the lock says '{value}'")
    recorded = verification.output
    created = verification.subject.settings.get("created")
    if recorded is not None and created != recorded.created:
        yield _error("created", f"the config says '{created}', the commit is of {recorded.created}")


def _wanted(verification: Verification) -> dict[str, str]:
    recipe, recorded, base = verification.recipe, verification.output, verification.locked.base
    wanted = {"title": f"{recipe.plugin.name} {recipe.name} {verification.target}"}
    if recorded is not None:
        wanted |= {"version": recorded.plugin.version, "created": recorded.created}
        wanted |= {"revision": recorded.revision} if recorded.revision else {}
    if isinstance(base, LockedImageBase):
        wanted |= {"base.name": base.reference, "base.digest": base.digest}
    return wanted


def _error(subject: str, message: str) -> Finding:
    return Finding("error", "labels", subject, message, "build the image again; labels come from the commit")
