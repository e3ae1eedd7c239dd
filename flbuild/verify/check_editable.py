"""Nothing is installed in place: an image must not depend on a source tree or a path outside of it."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterator

from flbuild.finding import Finding
from flbuild.verify.context import Verification

_HARMLESS_PTH = ("distutils-precedence.pth",)


def editable(verification: Verification) -> Iterator[Finding]:
    """Editable installs of every kind, and .pth files that add paths or run code."""
    for path, content in sorted(verification.view.contents.items()):
        name = posixpath.basename(path)
        if name == "direct_url.json":
            yield from _direct_url(path, content)
        elif path.endswith(".egg-link"):
            yield _error(path, "an egg-link points to a source tree")
        elif name.startswith("__editable__") or name == "easy-install.pth":
            yield _error(path, "an editable install's finder or path file")
        elif path.endswith(".pth") and name not in _HARMLESS_PTH and not _recorded(verification, path):
            yield _error(path, "a path file that belongs to no distribution")
    base = verification.locked.base
    for item in base.inventory if base else ():
        hidden = item.location.strip("/") not in {found.info for found in verification.installed}
        if item.editable and not hidden:
            yield _error(item.location, f"{item.name} of the base is an editable install, and is not removed")


def _direct_url(path: str, content: bytes) -> Iterator[Finding]:
    try:
        entry = json.loads(content)
    except ValueError:
        yield _error(path, "it is not JSON")
        return
    if entry.get("dir_info", {}).get("editable"):
        yield _error(path, f"an editable install of {entry.get('url')}")
    elif str(entry.get("url", "")).startswith("file:"):
        yield _error(path, "it records a path of the machine that built the image")


def _recorded(verification: Verification, path: str) -> bool:
    """Whether some distribution's RECORD lists the file."""
    folder = posixpath.dirname(path)
    row = f"{posixpath.basename(path)},".encode()
    return any(
        content.startswith(row) or b"\n" + row in content
        for place, content in verification.view.contents.items()
        if place.endswith(".dist-info/RECORD") and posixpath.dirname(posixpath.dirname(place)) == folder
    )


def _error(path: str, message: str) -> Finding:
    return Finding("error", "editable", f"/{path.lstrip('/')}", message, "install the locked wheel instead")
