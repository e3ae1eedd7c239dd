"""The seam between long steps and whoever shows them: libraries report, the CLI draws."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Task(Protocol):
    """One thing under way, counted in bytes or items."""

    def advance(self, amount: int) -> None:
        """Count `amount` more units as done."""

    def note(self, text: str) -> None:
        """Set the short state shown beside the task, for example 'mounted' or 'cached'."""


class Progress(Protocol):
    """Where a long step reports. Everything goes to stderr, never to stdout."""

    @contextmanager
    def task(self, label: str, total: int | None = None, *, unit: str = "bytes") -> Iterator[Task]:
        """Show a task until the block ends; `unit` is 'bytes' or 'items'."""
        raise NotImplementedError
        yield

    def info(self, text: str) -> None:
        """One line about what was done."""

    def warn(self, text: str) -> None:
        """One line the user should read."""


class _SilentTask:
    def advance(self, amount: int) -> None:
        pass

    def note(self, text: str) -> None:
        pass


class Silent:
    """A Progress that shows nothing, and keeps its warnings for the caller."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    @contextmanager
    def task(self, label: str, total: int | None = None, *, unit: str = "bytes") -> Iterator[Task]:
        yield _SilentTask()

    def info(self, text: str) -> None:
        pass

    def warn(self, text: str) -> None:
        self.warnings.append(text)
