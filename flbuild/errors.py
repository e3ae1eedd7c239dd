"""Errors a user sees: what happened, the likely cause, the next command; one exit code per class."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import ClassVar


class FlbuildError(Exception):
    """An error with an exit code.

    Args:
        what: one sentence that says what happened and to what.
        cause: the likely cause, if it is not obvious from `what`.
        remedy: the next command or edit that leads out.
        log: a log file that holds the details of a long step.
    """

    exit_code: ClassVar[int] = 1

    def __init__(
        self, what: str, *, cause: str | None = None, remedy: str | None = None, log: Path | None = None
    ) -> None:
        super().__init__(what)
        self.what = what
        self.cause = cause
        self.remedy = remedy
        self.log = log

    def __str__(self) -> str:
        lines = [self.what]
        if self.cause:
            lines.append(f"  cause: {self.cause}")
        if self.remedy:
            lines.append(f"  next:  {self.remedy}")
        if self.log:
            lines.append(f"  log:   {self.log}")
        return "\n".join(lines)


class RecipeError(FlbuildError):
    """A recipe is invalid."""

    exit_code = 2


class UsageError(FlbuildError):
    """A command was asked for something that makes no sense, or no project was found."""

    exit_code = 2


class LockStaleError(FlbuildError):
    """The lock disagrees with the recipe, lacks an entry, or holds an unresolved one."""

    exit_code = 3


class RemoteMovedError(FlbuildError):
    """Something remote is not what the lock says: a tag, a git ref, a file, Debian's archive."""

    exit_code = 4


class BaseMovedError(RemoteMovedError):
    """Debian's archive gives other packages than those the base was locked with."""

    def __init__(self, what: str, *, cause: str | None = None) -> None:
        super().__init__(what, cause=cause)
        self.of("")

    def of(self, image: str) -> BaseMovedError:
        """This error with the name of the image whose base it is, for whoever knows it."""
        self.remedy = (
            " ".join(["flbuild lock", *filter(None, [image]), "--refresh-base"])
            + " locks the base as it is now; images then get a new digest"
        )
        return self


class RemoteGoneError(FlbuildError):
    """Something the lock names is no longer there."""

    exit_code = 5


class RemoteRefusedError(FlbuildError):
    """A remote asks for other credentials or for patience (401, 403, 429)."""

    exit_code = 6


class BuildError(FlbuildError):
    """A wheel, a base or an image could not be built."""

    exit_code = 7


class VerificationError(FlbuildError):
    """A check found that something is not what was locked."""

    exit_code = 8


class PolicyError(FlbuildError):
    """A policy refused the operation, for example an existing immutable tag."""

    exit_code = 9


class HostError(FlbuildError):
    """This machine lacks something: a tool, an engine, disk, or the network."""

    exit_code = 10


class UnreachableError(HostError):
    """A remote did not answer at all (DNS, connection, TLS, time-out)."""


_OF_THE_HOST = frozenset(
    getattr(errno, name)
    for name in (
        *("EACCES", "EPERM", "EROFS", "ENOSPC", "EDQUOT", "EIO", "EMFILE", "ENFILE"),
        *("ENOTDIR", "EISDIR", "EEXIST", "ELOOP", "ENAMETOOLONG"),
    )
)
"""What a file system answers because of its state, not because of a mistake in this program."""


def host_error(error: OSError) -> HostError | None:
    """What a file system refused, for the user; None if it may as well be a mistake in this program."""
    if error.errno not in _OF_THE_HOST:
        return None
    where = f"{error.filename}: " if error.filename else ""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return HostError(
        f"{where}{error.strerror}",
        cause="a disk is full: that of the cache, of the output or of temporary files" if full else None,
        remedy="make room, or set FLBUILD_CACHE_DIR and TMPDIR to folders on a larger disk"
        if full
        else "choose another place for it, or change what is there; FLBUILD_CACHE_DIR moves the cache",
    )
