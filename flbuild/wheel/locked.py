"""Finding a source in the lock by the name people use for its wheel."""

from __future__ import annotations

from flbuild.errors import LockStaleError, UsageError
from flbuild.lock.model import Lock, LockedSource
from flbuild.lock.seal import require_sealed
from flbuild.suggest import perhaps

EMPTY = "-empty"
"""Ends the name of a wheel that is built without device code: `vllm-empty` is vllm VERSION+empty."""


def locked_source(lock: Lock, name: str, image: str | None = None) -> LockedSource:
    """The source called `name`.

    Args:
        image: whose source it is, where several images build different ones.

    Raises:
        LockStaleError: the lock has no such image, no sources at all, or was edited by hand.
        UsageError: no image builds it, or two images build different ones and `image` does not choose.
    """
    if image is not None and image not in lock.images:
        raise LockStaleError(f"images.lock has no entry '{image}'", remedy=f"flbuild lock {image}")
    chosen = {image: lock.images[image]} if image is not None else lock.images
    sources = {
        entry: {_wheel_name(source): source for source in locked.sources} for entry, locked in chosen.items()
    }
    known = {known for found in sources.values() for known in found}
    if not known:
        raise LockStaleError("images.lock has no sources to build", remedy="flbuild lock")
    users = {entry: found[name] for entry, found in sources.items() if name in found}
    if not users:
        raise UsageError(
            f"no image builds '{name}' from source{perhaps(name, known)}",
            remedy=f"one of: {', '.join(sorted(known))}, plugin",
        )
    require_sealed(lock, users)
    if len({(source.version, source.sha256) for source in users.values()}) > 1:
        lines = "\n".join(f"  {entry}: {source.version}" for entry, source in sorted(users.items()))
        raise UsageError(
            f"images build different {name}:\n{lines}",
            remedy=f"flbuild wheel {name} --image {min(users)}, or another of them",
        )
    return next(iter(users.values()))


def _wheel_name(source: LockedSource) -> str:
    return f"{source.name}{EMPTY}" if source.version.endswith("+empty") else source.name
