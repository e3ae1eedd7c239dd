"""Builds the wheel of a source tree and normalises it, as flbuild does, so that it gets the locked hash.

Runs inside a build stage: `python3 build_wheel.py SOURCE TOOLS OUTPUT`. TOOLS is a folder with the locked
build tools; this file lies beside what it takes from flbuild.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent


def main() -> None:
    """Build with what is in TOOLS alone: no build isolation, which would ask an index."""
    source, tools, output = sys.argv[1:]
    search = os.pathsep.join(filter(None, [tools, os.environ.get("PYTHONPATH")]))
    options = ("--no-deps", "--no-build-isolation")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [sys.executable, str(HERE / "pip.whl" / "pip"), "wheel", *options, "--wheel-dir", folder, source],
            check=True,
            env={**os.environ, "PYTHONPATH": search},
        )
        (built,) = Path(folder).iterdir()
        sys.path += [tools, str(HERE / "library")]
        from flbuild.wheel.normal import normalise

        print(normalise(built, Path(output)))


if __name__ == "__main__":
    main()
