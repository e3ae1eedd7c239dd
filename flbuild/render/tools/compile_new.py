"""Compiles the modules below a folder that have no byte-code yet, as flbuild's assembler compiles them.

Runs inside the image while it is built: `python3 compile_new.py FOLDER`. Only Python's library is there.
"""

from __future__ import annotations

import os
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from importlib.util import cache_from_source
from pathlib import Path

from compile_worker import byte_code  # type: ignore[import-not-found]  # lies beside this file there


def compile_module(path: Path) -> None:
    """Write the byte-code of one module; one that this interpreter cannot compile has none."""
    code = byte_code(str(path), path.read_bytes())
    if code:
        target = Path(cache_from_source(str(path)))
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(code)


def start() -> None:
    """Prepare a process: warnings of other people's sources help nobody, deep ones need a deep stack."""
    warnings.simplefilter("ignore")
    sys.setrecursionlimit(10_000)


def main() -> None:
    """Compile what is new, with all processors."""
    modules = Path(sys.argv[1]).rglob("*.py")
    new = [path for path in modules if not Path(cache_from_source(str(path))).exists()]
    with ProcessPoolExecutor(os.cpu_count(), initializer=start) as pool:
        for _ in pool.map(compile_module, new, chunksize=16):
            pass


if __name__ == "__main__":
    main()
