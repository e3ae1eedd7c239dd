"""What a check found: how bad, about what, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True)
class Finding:
    """One result of a check.

    Args:
        severity: an error fails the command, a warning is for review, info is for the record.
        check: the id of the check.
        subject: what it is about, for example a key, a distribution or a path.
        message: what was found.
        remedy: what leads out, if anything does.
    """

    severity: Severity
    check: str
    subject: str
    message: str
    remedy: str | None = None
