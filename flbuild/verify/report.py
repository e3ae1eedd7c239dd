"""Findings for people: grouped by check, the worst first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from flbuild.errors import VerificationError
from flbuild.finding import Finding
from flbuild.verify.image import Result
from flbuild.verify.subject import Subject

_REMEDIES_SHOWN = 3


def group(findings: Iterable[Finding]) -> dict[str, list[Finding]]:
    """Findings by check, in their order."""
    groups: dict[str, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(finding.check, []).append(finding)
    return groups


def lines(findings: Iterable[Finding]) -> list[str]:
    """Plain text: a heading per check, then a row per finding."""
    shown = []
    for check, items in group(findings).items():
        shown.append(f"{check}:")
        shown += [f"  {item.severity:<7}  {item.subject}: {item.message}" for item in items]
    return shown


def as_values(findings: Sequence[Finding], **more: Any) -> dict[str, Any]:
    """Findings as JSON values."""
    return {"passed": not errors(findings), "findings": [asdict(finding) for finding in findings], **more}


def looked_at(subject: Subject, result: Result) -> dict[str, Any]:
    """What an image verification read, as JSON values."""
    return {
        "recipe": result.match.recipe,
        "target": result.match.target,
        "manifest": subject.manifest_digest,
        "layers": result.all_layers,
        "layers_read": result.read_layers,
        "bytes_read": result.read_bytes,
        "files": result.files,
        "distributions": result.distributions,
    }


def errors(findings: Iterable[Finding]) -> list[Finding]:
    """Those that fail the command."""
    return [finding for finding in findings if finding.severity == "error"]


def raise_if_failed(findings: Sequence[Finding]) -> None:
    """Nothing if there is no error among the findings.

    Raises:
        VerificationError: there is; it says how many, and what leads out.
    """
    found = errors(findings)
    if not found:
        return
    remedies = list(dict.fromkeys(finding.remedy for finding in found if finding.remedy))
    checks = ", ".join(group(found))
    raise VerificationError(
        f"{len(found)} error{'' if len(found) == 1 else 's'} found ({checks})",
        remedy="; ".join(remedies[:_REMEDIES_SHOWN]) or None,
    )
