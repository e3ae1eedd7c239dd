"""The clock: a wrong one shows as certificates that are not valid yet, or no longer."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

from flbuild.doctor.context import Machine, bad, good
from flbuild.finding import Finding

_WRITTEN = date(2026, 1, 1)
"""No machine that has this file is older."""


def clock(machine: Machine, today: date | None = None) -> Iterator[Finding]:
    """It is not before flbuild was written."""
    now = today or date.today()
    if now < _WRITTEN:
        yield bad("clock", "date", f"it says {now}", "set the clock: TLS certificates are not valid then")
    else:
        yield good("clock", "date", str(now))
