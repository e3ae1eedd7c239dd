"""Inputs that could not be pinned: an error that names them all, or entries that no build accepts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flbuild.errors import FlbuildError, RemoteGoneError, UnreachableError
from flbuild.lock.model import Unresolved
from flbuild.progress import Progress


@dataclass(frozen=True)
class Missing:
    """An input that could not be pinned: its entry for the lock, and the error that was in the way."""

    entry: Unresolved
    error: FlbuildError


def missing(name: str, version: str, source: str, error: FlbuildError) -> Missing:
    """An input that `error` kept from being pinned.

    The reason in its entry is the kind of error only: addresses and the words of a network differ between
    machines, and the lock must not.
    """
    if isinstance(error, RemoteGoneError):
        reason = "it does not have this"
    elif isinstance(error, UnreachableError):
        reason = "it could not be reached"
    else:
        reason = "it was not asked"
    return Missing(Unresolved(name=name, version=version, source=source, reason=reason), error)


def settle_missing(recipe: str, found: Sequence[Missing], progress: Progress, *, allowed: bool) -> None:
    """Warn about what is missing, or refuse it.

    Raises:
        FlbuildError: something is missing and that is not allowed. It is of the class of the first error, and
            names everything that is missing and what leads to each.
    """
    if found and not allowed:
        raise _joined(recipe, [item.error for item in found])
    for item in found:
        progress.warn(f"{item.entry.name} {item.entry.version} stays unresolved: {item.error.what}")


def _joined(recipe: str, errors: Sequence[FlbuildError]) -> FlbuildError:
    first = errors[0]
    remedy = f"record what is missing as unresolved with flbuild lock {recipe} --allow-missing"
    if len(errors) == 1:
        ways = f"{first.remedy}, or {remedy}" if first.remedy else remedy
        return type(first)(first.what, cause=first.cause, remedy=ways)
    lines = [f"{recipe}: {len(errors)} inputs cannot be had"]
    for error in errors:
        lines += [f"  {error.what}", *([f"    {error.remedy}"] if error.remedy else [])]
    return type(first)("\n".join(lines), cause=first.cause, remedy=f"reach them, or {remedy}")
