"""Progress on stderr: rich bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.filesize import decimal
from rich.markup import escape
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    ProgressColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.progress import Progress as RichProgress

from flbuild.progress import Progress, Task

QUIET_SECONDS = 0.5
"""Tasks that end sooner print no line when piped: a log of hundreds of cached files helps nobody."""


def make_progress() -> Progress:
    """The display that fits stderr: bars on a terminal, lines in a pipe or a log."""
    return TerminalProgress(Console(stderr=True)) if sys.stderr.isatty() else PlainProgress()


class _PlainTask:
    def __init__(self) -> None:
        self.done = 0
        self.state = ""

    def advance(self, amount: int) -> None:
        self.done += amount

    def note(self, text: str) -> None:
        self.state = text


class PlainProgress:
    """One line when a task ends, with what it amounted to and how long it took."""

    @contextmanager
    def task(self, label: str, total: int | None = None, *, unit: str = "bytes") -> Iterator[Task]:
        task = _PlainTask()
        start = time.monotonic()
        yield task
        seconds = time.monotonic() - start
        if seconds < QUIET_SECONDS and not task.state:
            return
        amount = decimal(task.done) if unit == "bytes" else f"{task.done} {unit}"
        parts = [label, *([amount] if task.done else []), *([task.state] if task.state else [])]
        self.info(f"{', '.join(parts)} ({seconds:.1f} s)")

    def info(self, text: str) -> None:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()

    def warn(self, text: str) -> None:
        self.info(f"warning: {text}")


class _BarTask:
    def __init__(self, bars: RichProgress, task_id: TaskID) -> None:
        self._bars = bars
        self._id = task_id

    def advance(self, amount: int) -> None:
        self._bars.advance(self._id, amount)

    def note(self, text: str) -> None:
        self._bars.update(self._id, state=text)


class TerminalProgress:
    """Bars while tasks run; each leaves a line behind only if it took noticeable time."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bars: dict[str, RichProgress] = {}
        self._open = 0
        self._live: RichProgress | None = None

    def _columns(self, unit: str) -> list[ProgressColumn]:
        amount: ProgressColumn = DownloadColumn() if unit == "bytes" else MofNCompleteColumn()
        label, state = (
            TextColumn(text, markup=False) for text in ("{task.description}", "{task.fields[state]}")
        )
        return [label, BarColumn(), amount, TimeElapsedColumn(), state]

    @contextmanager
    def task(self, label: str, total: int | None = None, *, unit: str = "bytes") -> Iterator[Task]:
        if self._live is None:
            self._live = RichProgress(*self._columns(unit), console=self._console, transient=True)
            self._live.start()
        live = self._live
        self._open += 1
        start = time.monotonic()
        task_id = live.add_task(label, total=total, state="")
        try:
            yield _BarTask(live, task_id)
        finally:
            state = live.tasks[live.task_ids.index(task_id)].fields["state"]
            live.remove_task(task_id)
            self._open -= 1
            if self._open == 0:
                live.stop()
                self._live = None
            seconds = time.monotonic() - start
            if seconds >= QUIET_SECONDS:
                shown = escape(f"{label}{', ' + state if state else ''}")
                self._console.print(f"{shown} [dim]({seconds:.1f} s)[/dim]", highlight=False)

    def info(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False)

    def warn(self, text: str) -> None:
        self._console.print(f"[yellow]warning:[/yellow] {escape(text)}", highlight=False)
