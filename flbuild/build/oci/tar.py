"""A layer's tar: sorted, without a trace of who made it or when."""

from __future__ import annotations

import io
import posixpath
import tarfile
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO
from zipfile import ZipFile

from flbuild.build.oci.entries import Entry
from flbuild.plan.model import InstallScheme

LAYER_EPOCH = 315532800
"""1980-01-01 00:00 UTC, in seconds: the modification time of every entry.

It is no time of a build: a layer of the same wheels stays the same layer, whichever commit it is built for.
"""

_SHARED = frozenset({"bin", "etc", "games", "include", "lib", "man", "sbin", "share", "src"})
"""First-level folders of a prefix (Filesystem Hierarchy Standard): the base has them, maybe as links."""


def write_wheels(stream: IO[bytes], entries: Sequence[Entry], scheme: InstallScheme) -> None:
    """Write files, and every folder that they bring with them, as a PAX tar."""
    files = {entry.path: entry for entry in entries}
    folders = {folder for path in files for folder in _new_folders(path, scheme)}
    with ExitStack() as stack, tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as tar:
        archives = {wheel: stack.enter_context(ZipFile(wheel)) for wheel in _wheels(entries)}
        for path in sorted(folders | files.keys()):
            if path in files:
                entry = files[path]
                with entry.content.open(archives) as content:
                    tar.addfile(_member(path, entry.mode, entry.content.size), content)
            else:
                folder = _member(path, 0o755)
                folder.type = tarfile.DIRTYPE
                tar.addfile(folder)


def write_whiteouts(stream: IO[bytes], paths: Iterable[str]) -> None:
    """Write a whiteout for every absolute path (OCI image specification, "Whiteouts")."""
    with tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted({path.strip("/") for path in paths}):
            folder, name = posixpath.split(path)
            tar.addfile(_member(posixpath.join(folder, f".wh.{name}"), 0o644), io.BytesIO())


def _wheels(entries: Iterable[Entry]) -> set[Path]:
    return {entry.content.wheel for entry in entries if entry.content.wheel is not None}


def _member(path: str, mode: int, size: int = 0) -> tarfile.TarInfo:
    member = tarfile.TarInfo(path)
    member.mode = mode
    member.size = size
    member.mtime = LAYER_EPOCH
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def _new_folders(path: str, scheme: InstallScheme) -> Iterable[str]:
    """The folders above `path` that the layer must make itself.

    One that the base has must not be listed: the entry would replace it, with its mode, or a link with a
    folder. Below site-packages all comes from wheels; elsewhere a prefix's usual folders are the base's.
    """
    for root in sorted((scheme.site_packages, scheme.data), key=len, reverse=True):
        inside = root.lstrip("/")
        if path.startswith(f"{inside}/"):
            parts = path[len(inside) + 1 :].split("/")[:-1]
            for depth in range(1, len(parts) + 1):
                folder = "/".join(parts[:depth])
                if root == scheme.site_packages or folder not in _SHARED:
                    yield f"{inside}/{folder}"
            return
