"""Installs the wheels of one step into a folder, with the code of flbuild's assembler.

Runs inside a build stage: `python3 install.py STEP FOLDER`. STEP holds wheels, in whatever folders, and
`layer.json`, which names them by hash and says where they go. FOLDER becomes what a COPY to / adds to the
image. This file lies beside what it takes from flbuild.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import zipfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

sys.path.insert(0, str(Path(__file__).with_name("library")))

from flbuild.build.oci.bytecode import compile_entries
from flbuild.build.oci.contents import wheel_entries
from flbuild.build.oci.entries import Entry
from flbuild.files import sha256_file

if TYPE_CHECKING:
    from flbuild.build.oci.interpreter import Interpreter
    from flbuild.plan.model import InstallScheme, PlannedWheel

MTIME = 315532800
"""1980-01-01 00:00 UTC, in seconds, as in the assembler's layers."""

_ENVIRONMENT = (("PYTHONHASHSEED", "0"), ("PYTHONSAFEPATH", "1"), ("LC_ALL", "C.UTF-8"))


class _Task:
    def advance(self, amount: int) -> None:
        pass

    def note(self, text: str) -> None:
        pass


def locked_files(step: Path, layer: dict[str, Any]) -> dict[str, Path]:
    """Every wheel of the step by its SHA-256; one that is not what is locked stops the build."""
    present = {sha256_file(path): path for path in step.rglob("*.whl")}
    missing = [wheel["filename"] for wheel in layer["wheels"] if wheel["sha256"] not in present]
    if missing:
        raise SystemExit(f"no file here has the locked hash of: {', '.join(missing)}")
    return present


def write(entries: Sequence[Entry], root: Path, site: str) -> None:
    """Write files below `root`, and the folders above them as they are in the image."""
    with ExitStack() as stack:
        wheels = {entry.content.wheel for entry in entries if entry.content.wheel is not None}
        archives = {wheel: stack.enter_context(zipfile.ZipFile(wheel)) for wheel in wheels}
        for entry in entries:
            # A folder of the image may be a link: a COPY must meet what it leads to.
            folder = os.path.realpath(f"/{os.path.dirname(entry.path)}")
            make_folder(root, Path(folder), site)
            target = root / folder.lstrip("/") / os.path.basename(entry.path)
            with entry.content.open(archives) as source, target.open("wb") as stream:
                shutil.copyfileobj(source, stream, 1 << 20)
            target.chmod(entry.mode)
            os.utime(target, (MTIME, MTIME))


def make_folder(root: Path, folder: Path, site: str) -> None:
    """A folder below `root`, with its mode in the image; new ones and those of packages are open to all."""
    place = root / folder.relative_to("/")
    if place.is_dir():
        return
    if folder != folder.parent:
        make_folder(root, folder.parent, site)
    place.mkdir()
    known = folder.is_dir() and not f"{folder}/".startswith(f"{site}/")
    place.chmod(folder.stat().st_mode & 0o7777 if known else 0o755)


def main() -> None:
    """Install what `layer.json` lists."""
    step, root = Path(sys.argv[1]), Path(sys.argv[2])
    layer = json.loads((step / "layer.json").read_text())
    files = locked_files(step, layer)
    scheme = cast("InstallScheme", SimpleNamespace(**layer["scheme"]))
    # Alone, as the assembler runs it: nothing of the image's packages or of this program changes byte-code.
    command = (sys.executable, "-S", "-s", "-B")
    interpreter = cast("Interpreter", SimpleNamespace(command=command, environment=_ENVIRONMENT))

    def compiled(entries: Sequence[Entry]) -> dict[str, Entry]:
        return compile_entries(entries, interpreter, scheme, _Task()) if scheme.bytecode else {}

    wheels = [cast("PlannedWheel", SimpleNamespace(**wheel)) for wheel in layer["wheels"]]
    write(wheel_entries(wheels, files, scheme, compiled), root, scheme.site_packages)


if __name__ == "__main__":
    main()
