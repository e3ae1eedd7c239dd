"""Compiles the modules below a folder that have no byte-code of this form, as flbuild's assembler does.

Runs inside the image while it is built: `python3 compile_new.py FOLDER`. Only Python's library is there. What
it writes stands in the RECORD of the distribution that owns the module, so that a change of it is seen.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import os
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from importlib.util import cache_from_source
from pathlib import Path

from compile_worker import UNCHECKED_HASH, byte_code  # type: ignore[import-not-found]  # beside this file there


def byte_code_path(module: Path) -> Path:
    """Where the byte-code of a module goes (PEP 3147)."""
    return Path(cache_from_source(str(module)))


def is_new(module: Path) -> bool:
    """Whether a module lacks byte-code of this form; wheels bring some with times in it."""
    try:
        with byte_code_path(module).open("rb") as stream:
            return bool(stream.read(8)[4:] != UNCHECKED_HASH)
    except FileNotFoundError:
        return True


def compile_module(module: Path) -> bool:
    """Write the byte-code of one module; False for one that this interpreter cannot compile."""
    code = byte_code(str(module), module.read_bytes())
    if code:
        target = byte_code_path(module)
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(code)
    return bool(code)


def record(path: Path, made: set[Path]) -> None:
    """Add the byte-code of `made` modules to a RECORD that lists them; its own row comes last."""
    root = path.parent.parent
    with path.open(newline="", encoding="utf-8") as stream:
        rows = {row[0]: row for row in csv.reader(stream) if row}
    owned = [name for name in rows if root / name in made]
    if not owned:
        return
    for name in owned:
        target = byte_code_path(root / name)
        content = target.read_bytes()
        value = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
        place = target.relative_to(root).as_posix()
        rows[place] = [place, f"sha256={value}", str(len(content))]
    own = rows.pop(path.relative_to(root).as_posix(), [path.relative_to(root).as_posix(), "", ""])
    with path.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream, lineterminator="\n").writerows([*sorted(rows.values()), own])


def start() -> None:
    """Prepare a process: warnings of other people's sources help nobody, deep ones need a deep stack."""
    warnings.simplefilter("ignore")
    sys.setrecursionlimit(10_000)


def main() -> None:
    """Compile what is new, with all processors."""
    folder = Path(sys.argv[1])
    new = [module for module in folder.rglob("*.py") if is_new(module)]
    with ProcessPoolExecutor(os.cpu_count(), initializer=start) as pool:
        done = pool.map(compile_module, new, chunksize=16)
        made = {module for module, compiled in zip(new, done, strict=True) if compiled}
    for path in folder.glob("*.dist-info/RECORD"):
        record(path, made)


if __name__ == "__main__":
    main()
