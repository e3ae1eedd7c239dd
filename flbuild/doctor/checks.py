"""The checks of a machine, in the order they are reported."""

from __future__ import annotations

from collections.abc import Iterable

from flbuild.doctor.check_cache import cache
from flbuild.doctor.check_certificates import certificates
from flbuild.doctor.check_clock import clock
from flbuild.doctor.check_engine import buildah, buildx, engine
from flbuild.doctor.check_network import indexes, registries
from flbuild.doctor.check_python import python
from flbuild.doctor.check_tools import git, mmdebstrap, uv
from flbuild.doctor.context import Check, Machine
from flbuild.errors import HostError
from flbuild.finding import Finding

CHECKS: tuple[Check, ...] = (
    python,
    uv,
    git,
    mmdebstrap,
    cache,
    clock,
    certificates,
    indexes,
    registries,
    engine,
    buildx,
    buildah,
)


def examine(machine: Machine) -> list[Finding]:
    """Everything that the checks say of this machine."""
    return [finding for check in CHECKS for finding in check(machine)]


def raise_if_unable(findings: Iterable[Finding]) -> None:
    """Nothing if the main job can work here.

    Raises:
        HostError: it cannot; it says what is in the way.
    """
    errors = [finding for finding in findings if finding.severity == "error"]
    if errors:
        raise HostError(
            f"flbuild cannot build images here: {', '.join(finding.subject for finding in errors)}",
            remedy="; ".join(finding.remedy for finding in errors if finding.remedy),
        )
