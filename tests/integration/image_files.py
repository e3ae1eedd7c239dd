"""What is in an image: every path of its unpacked layers, and what about it must not depend on the builder."""

from __future__ import annotations

import gzip
import json
import posixpath
import tarfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import IO, cast


@dataclass(frozen=True)
class Item:
    """One path. `content` is a file's SHA-256 or a link's target; times and the sizes of folders are left out."""

    kind: str
    mode: int
    owner: tuple[int, int]
    content: str = ""


def image_files(layers: Iterable[Path]) -> dict[str, Item]:
    """The paths that layers (gzipped tars, lowest first) unpack to, by OCI's rules for whiteouts."""
    found: dict[str, Item] = {}
    for layer in layers:
        added: dict[str, Item] = {}
        with gzip.open(layer) as plain, tarfile.open(fileobj=cast("IO[bytes]", plain), mode="r|") as tar:
            for member in tar:
                path = posixpath.normpath(member.name).lstrip("/")
                folder, name = posixpath.split(path)
                if name == ".wh..wh..opq":
                    _remove(found, folder, itself=False)
                elif name.startswith(".wh."):
                    _remove(found, posixpath.join(folder, name.removeprefix(".wh.")))
                else:
                    added[path] = _item(tar, member, {**found, **added} if member.islnk() else {})
        for path, item in added.items():
            if item.kind != "folder" and path in found and found[path].kind == "folder":
                _remove(found, path)
            found[path] = item
    return found


def layout_layers(layout: Path, fetch: Callable[[str], Path]) -> list[Path]:
    """The layer files of the one image of a layout; those that it lacks come from `fetch`."""
    blobs = layout / "blobs" / "sha256"
    index = json.loads((layout / "index.json").read_bytes())
    manifest = json.loads((blobs / index["manifests"][0]["digest"].removeprefix("sha256:")).read_bytes())
    paths = [
        (blobs / layer["digest"].removeprefix("sha256:"), layer["digest"]) for layer in manifest["layers"]
    ]
    return [path if path.exists() else fetch(digest) for path, digest in paths]


def differences(one: Mapping[str, Item], other: Mapping[str, Item]) -> list[str]:
    """What differs, a line each, in the order of paths."""
    return [
        f"{path}: {one.get(path)} / {other.get(path)}"
        for path in sorted({*one, *other})
        if one.get(path) != other.get(path)
    ]


def _item(tar: tarfile.TarFile, member: tarfile.TarInfo, known: Mapping[str, Item]) -> Item:
    owner = (member.uid, member.gid)
    if member.isdir():
        return Item("folder", member.mode & 0o7777, owner)
    if member.issym():
        return Item("link", 0, owner, member.linkname)
    if member.islnk():
        # Another name of a file: as good as a copy of it.
        return known[posixpath.normpath(member.linkname).lstrip("/")]
    if member.isfile():
        digest = sha256()
        stream = cast("IO[bytes]", tar.extractfile(member))
        while piece := stream.read(1 << 20):
            digest.update(piece)
        return Item("file", member.mode & 0o7777, owner, digest.hexdigest())
    return Item("special", member.mode & 0o7777, owner)


def _remove(found: dict[str, Item], path: str, *, itself: bool = True) -> None:
    for name in [name for name in found if name.startswith(f"{path}/") or (itself and name == path)]:
        del found[name]
