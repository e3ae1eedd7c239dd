"""Looks around in a running image and prints what it saw as one JSON document.

flbuild starts it in a container as `python3 -c SOURCE REQUEST`, so it needs only the standard library. It
judges nothing: what counts as an error is decided outside, where recipe and waivers are. Every import has
a process of its own, because a broken extension may take its process with it.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import PurePosixPath
from typing import Any

BEGIN = "flbuild-smoke:"
"""The document's line starts so; whatever else is printed in the container does not."""

_CHILD = """
import importlib, json, os, sys

def told(error):
    seen = []
    while error is not None and len(seen) < 20:
        seen.append(f"{type(error).__name__}: {error}")
        error = error.__cause__ or error.__context__
    return seen

def look(work):
    try:
        return {"found": work(), "error": []}
    except BaseException as error:
        return {"found": None, "error": told(error)}
"""

_IMPORT = """
def work():
    module = importlib.import_module(sys.argv[2])
    return getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", [])), None)
"""

_REGISTER = """
from importlib.metadata import distribution

def work():
    (point,) = distribution(sys.argv[2]).entry_points.select(group=sys.argv[3], name=sys.argv[4])
    returned = point.load()()
    return returned if isinstance(returned, str) else None
"""

_PLATFORM = """
def work():
    from vllm.platforms import current_platform
    kind = type(current_platform)
    return f"{kind.__module__}.{kind.__qualname__}"
"""

_TELL = """
answer = look(work)
os.write(int(sys.argv[1]), json.dumps(answer).encode())
os.close(int(sys.argv[1]))
os._exit(0)
"""


def main(request: dict[str, Any]) -> dict[str, Any]:
    """What `flbuild.verify.run.observed.Observed` holds, as JSON values.

    Args:
        request: `distributions` to import, the `plugin`, its entry-point `groups`, `drivers` to look for,
            and `seconds` for each import.
    """
    installed = list(metadata.distributions())
    wanted = {_canonical(name) for name in request["distributions"]}
    found = [item for item in installed if _canonical(item.metadata["Name"]) in wanted]
    seconds = float(request["seconds"])
    return {
        "import_path": [path for path in sys.path if path],
        "python_path": os.environ.get("PYTHONPATH"),
        "prefixes": sorted({sys.prefix, sys.base_prefix}),
        "absent_drivers": [name for name in request["drivers"] if not _loads(name)],
        "installed": [_described(item) for item in installed],
        "imports": [
            {"distribution": _canonical(item.metadata["Name"]), "module": module}
            | _ask(_IMPORT, [module], seconds)
            for item in found
            for module in _modules(item)
        ],
        "registrations": [
            {"group": group, "name": name} | _ask(_REGISTER, [request["plugin"], group, name], seconds)
            for group in request["groups"]
            for name in _registered(request["plugin"], group)
        ],
        "platform": _ask(_PLATFORM, [], seconds),
        "pip_check": _pip_check(seconds),
    }


def _ask(work: str, arguments: list[str], seconds: float) -> dict[str, Any]:
    """What a piece of code found, or its chain of errors, the outermost first."""
    read, write = os.pipe()
    command = [sys.executable, "-c", _CHILD + work + _TELL, str(write), *arguments]
    with os.fdopen(read, "rb") as answer:
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, pass_fds=[write], timeout=seconds
            )
        except subprocess.TimeoutExpired:
            return {"found": None, "error": [f"no end after {seconds:.0f} seconds"]}
        finally:
            os.close(write)
        text = answer.read()
    if text:
        return dict(json.loads(text))
    said = done.stderr.decode(errors="replace").strip().splitlines()[-3:]
    return {"found": None, "error": [f"the process ended with {done.returncode}", *reversed(said)]}


def _modules(item: metadata.Distribution) -> list[str]:
    """Top-level modules of a distribution that are meant for others, by name.

    An editable install lists none of its modules, so its own name is tried.
    """
    found = set()
    for file in item.files or []:
        parts = PurePosixPath(str(file)).parts
        if len(parts) == 1 and re.search(r"\.py$|\.so$", parts[0]):
            found.add(parts[0].partition(".")[0])
        elif len(parts) == 2 and parts[1] == "__init__.py":
            found.add(parts[0])
    if not item.files or any(str(file).endswith(".pth") for file in item.files):
        found.add(_canonical(item.metadata["Name"]).replace("-", "_"))
    return sorted(name for name in found if name.isidentifier() and not name.startswith("_"))


def _registered(plugin: str, group: str) -> list[str]:
    try:
        points = metadata.distribution(plugin).entry_points
    except metadata.PackageNotFoundError:
        return []
    return sorted(point.name for point in points.select(group=group))


def _described(item: metadata.Distribution) -> dict[str, Any]:
    return {
        "name": _canonical(item.metadata["Name"]),
        "version": item.version,
        "requires": list(item.requires or []),
    }


def _loads(name: str) -> bool:
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


def _pip_check(seconds: float) -> list[str] | None:
    """The lines of `pip check`; None where the image has no pip."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "check"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return [f"pip check: no end after {seconds:.0f} seconds"]
    if "No module named pip" in done.stderr:
        return None
    return [] if done.returncode == 0 else (done.stdout or done.stderr).strip().splitlines()


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    print("\n" + BEGIN + json.dumps(main(json.loads(sys.argv[1]))), flush=True)
