"""The Python that runs flbuild."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator

from flbuild.doctor.context import Machine, bad, good
from flbuild.finding import Finding

_OLDEST, _FIRST_UNKNOWN = (3, 10), (3, 14)


def python(machine: Machine) -> Iterator[Finding]:
    """A version that flbuild is tested with."""
    version = platform.python_version()
    if _OLDEST <= sys.version_info[:2] < _FIRST_UNKNOWN:
        yield good("python", sys.executable, version)
    else:
        yield bad(
            "python",
            sys.executable,
            f"{version} is not supported",
            "make the virtual environment with a Python from 3.10 to 3.13",
        )
