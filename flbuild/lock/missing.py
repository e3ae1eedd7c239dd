"""Entries for what could not be pinned."""

from __future__ import annotations

from flbuild.errors import FlbuildError, RemoteGoneError, UnreachableError
from flbuild.lock.model import Unresolved
from flbuild.progress import Progress


def unresolved(name: str, version: str, source: str, error: FlbuildError) -> Unresolved:
    """The entry for an input that `error` kept from being pinned.

    Its reason is the kind of error only: addresses and the words of a network differ between machines, and
    the lock must not.
    """
    if isinstance(error, RemoteGoneError):
        reason = "it does not have this"
    elif isinstance(error, UnreachableError):
        reason = "it could not be reached"
    else:
        reason = "it was not asked"
    return Unresolved(name=name, version=version, source=source, reason=reason)


def warn_unresolved(progress: Progress, item: Unresolved, error: FlbuildError) -> None:
    """Say that a lock with a gap is being written, and why."""
    progress.warn(f"{item.name} {item.version} stays unresolved: {error.what}")
