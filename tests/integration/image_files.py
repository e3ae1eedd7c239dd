"""What is in an image: every path of its unpacked layers, and what must not depend on the builder."""

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

WHITEOUT = ".wh."


@dataclass(frozen=True)
class Item:
    """One path. `content` is a file's SHA-256 or a link's target; times are left out."""

    kind: str
    mode: int
    owner: tuple[int, int]
    content: str = ""


class ImageFiles:
    """Reads images; a layer is read once, whichever images have it."""

    def __init__(self) -> None:
        self._layers: dict[str, dict[str, Item]] = {}

    def of(self, layout: Path, fetch: Callable[[str], Path]) -> dict[str, Item]:
        """The paths of the one image of a layout; layers that it lacks come from `fetch`."""
        blobs = layout / "blobs" / "sha256"
        index = json.loads((layout / "index.json").read_bytes())
        manifest = json.loads((blobs / _name(index["manifests"][0]["digest"])).read_bytes())
        found: dict[str, Item] = {}
        for layer in manifest["layers"]:
            digest = layer["digest"]
            if digest not in self._layers:
                path = blobs / _name(digest)
                self._layers[digest] = read_layer(path if path.exists() else fetch(digest))
            apply_layer(found, self._layers[digest])
        return found


def read_layer(path: Path) -> dict[str, Item]:
    """The entries of a gzipped layer, whiteouts among them."""
    added: dict[str, Item] = {}
    with gzip.open(path) as plain, tarfile.open(fileobj=cast("IO[bytes]", plain), mode="r|") as tar:
        for member in tar:
            added[posixpath.normpath(member.name).lstrip("/")] = _item(tar, member, added)
    return added


def apply_layer(found: dict[str, Item], layer: Mapping[str, Item]) -> None:
    """Put a layer over what is there, by OCI's rules for whiteouts."""
    gone = set()
    for path in layer:
        folder, name = posixpath.split(path)
        if name == ".wh..wh..opq":
            gone |= {known for known in found if known.startswith(f"{folder}/")}
        elif name.startswith(WHITEOUT):
            gone.add(posixpath.join(folder, name.removeprefix(WHITEOUT)))
        elif layer[path].kind != "folder" and path in found and found[path].kind == "folder":
            gone.add(path)
    for path in [path for path in found if gone and not gone.isdisjoint(_upwards(path))]:
        del found[path]
    found.update(
        (path, item) for path, item in layer.items() if not posixpath.basename(path).startswith(WHITEOUT)
    )


def differences(one: Mapping[str, Item], other: Mapping[str, Item]) -> list[str]:
    """What differs, a line each, in the order of paths."""
    return [
        f"{path}: {one.get(path)} / {other.get(path)}"
        for path in sorted({*one, *other})
        if one.get(path) != other.get(path)
    ]


def _item(tar: tarfile.TarFile, member: tarfile.TarInfo, known: Mapping[str, Item]) -> Item:
    owner, mode = (member.uid, member.gid), member.mode & 0o7777
    if member.isdir():
        return Item("folder", mode, owner)
    if member.issym():
        return Item("link", 0, owner, member.linkname)
    if member.islnk():
        # Another name of a file of this layer: as good as a copy of it.
        return known[posixpath.normpath(member.linkname).lstrip("/")]
    if member.isfile():
        digest = sha256()
        stream = cast("IO[bytes]", tar.extractfile(member))
        while piece := stream.read(1 << 20):
            digest.update(piece)
        return Item("file", mode, owner, digest.hexdigest())
    return Item("special", mode, owner)


def _upwards(path: str) -> Iterable[str]:
    while path:
        yield path
        path = posixpath.dirname(path)


def _name(digest: str) -> str:
    return digest.removeprefix("sha256:")
