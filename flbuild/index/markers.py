"""What environment markers mean inside an image (PEP 508), which is not what they mean on this machine."""

from __future__ import annotations

from packaging.requirements import Requirement

from flbuild.index.tags import MACHINES


def marker_environment(platform: str, python: str) -> dict[str, str]:
    """The values of the markers; the patch release of Python is not known, so it is the first."""
    return {
        "extra": "",
        "implementation_name": "cpython",
        "implementation_version": f"{python}.0",
        "os_name": "posix",
        "platform_machine": MACHINES[platform],
        "platform_python_implementation": "CPython",
        "platform_release": "",
        "platform_system": "Linux",
        "platform_version": "",
        "python_full_version": f"{python}.0",
        "python_version": python,
        "sys_platform": "linux",
    }


def applies(requirement: Requirement, environment: dict[str, str]) -> bool:
    """Whether a requirement counts where the markers have these values."""
    return requirement.marker is None or requirement.marker.evaluate(environment)
