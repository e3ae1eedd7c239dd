"""A lock that a forked child can still take."""

from __future__ import annotations

import os
import threading
from types import TracebackType


class ForkSafeLock:
    """A reentrant lock. A child made by fork starts with it free, whichever thread held it in the parent.

    What it guards must be replaced in one assignment, because a fork may happen in the middle.
    """

    __slots__ = ("_lock", "_pid")

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        if self._pid != os.getpid():
            # Only the thread that forked exists here, so nobody competes for this renewal.
            self._lock = threading.RLock()
            self._pid = os.getpid()
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()
