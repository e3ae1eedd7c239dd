"""Reviewed exceptions: what they cover, whether they are needed, and how long they count."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import date

from flbuild.finding import Finding
from flbuild.recipe.model import Waiver


def apply_waivers(findings: Iterable[Finding], waivers: Iterable[Waiver], today: date) -> Iterator[Finding]:
    """Findings after review: a waived error becomes information, and a waiver must be needed and in force."""
    known = {(waiver.check, waiver.subject): waiver for waiver in waivers}
    used = set()
    for finding in findings:
        waiver = known.get((finding.check, finding.subject))
        if waiver is None or finding.severity == "info":
            yield finding
            continue
        used.add((waiver.check, waiver.subject))
        if waiver.expires <= today:
            yield replace(
                finding,
                message=f"{finding.message}; its waiver expired on {waiver.expires}",
                remedy="review it again, and renew or drop the waiver",
            )
        else:
            message = f"{finding.message}; waived until {waiver.expires}: {waiver.reason}"
            yield replace(finding, severity="info", message=message, remedy=None)
    for key, waiver in known.items():
        if key not in used:
            yield Finding(
                "warning",
                waiver.check,
                waiver.subject,
                f"the waiver is not needed: {waiver.reason}",
                "drop the waiver from the recipe",
            )
