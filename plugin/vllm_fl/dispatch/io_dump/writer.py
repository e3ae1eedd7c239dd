"""Files written in the background, each by one thread, so that its lines keep their order."""

from __future__ import annotations

import logging
import queue
import threading
import zlib
from collections.abc import Callable
from pathlib import Path

logger = logging.getLogger(__name__)

_BACKLOG = 256
"""Jobs a thread may be behind before the model waits for it, which bounds the memory they hold."""

Job = Callable[[], None]


class Writer:
    """Runs jobs that write files. With no threads, it runs them at once."""

    def __init__(self, threads: int) -> None:
        self._queues: list[queue.Queue[Job | None]] = [queue.Queue(_BACKLOG) for _ in range(threads)]
        self._threads = [threading.Thread(target=_work, args=(q,), daemon=True) for q in self._queues]
        for thread in self._threads:
            thread.start()

    def submit(self, path: Path, job: Job) -> None:
        """Run ``job``, which writes ``path``, after the earlier jobs of that path."""
        if self._queues:
            self._queues[zlib.crc32(str(path).encode()) % len(self._queues)].put(job)
        else:
            _run(job)

    def close(self) -> None:
        """Wait until everything is written. Jobs that come later are run at once."""
        queues, self._queues = self._queues, []
        for pending in queues:
            pending.put(None)
        for thread in self._threads:
            thread.join()


def _work(jobs: queue.Queue[Job | None]) -> None:
    while (job := jobs.get()) is not None:
        _run(job)


def _run(job: Job) -> None:
    try:
        job()
    except Exception:
        logger.warning("A record of an operator could not be written", exc_info=True)
