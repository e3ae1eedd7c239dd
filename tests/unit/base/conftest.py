"""Layers made of a few lines."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Mapping

import pytest

from flbuild.base.inventory import Inventory
from flbuild.base.layer import read_layer
from flbuild.base.tree import Tree

Content = bytes | str | None | tuple[str, str]


@pytest.fixture
def pack() -> Callable[[Mapping[str, Content]], bytes]:
    """A tar of paths: text or bytes make a file, None a folder, ('symlink' or 'hardlink', target) a link."""

    def make(entries: Mapping[str, Content]) -> bytes:
        target = io.BytesIO()
        with tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for path, content in entries.items():
                member = tarfile.TarInfo(path)
                if content is None:
                    member.type = tarfile.DIRTYPE
                elif isinstance(content, tuple):
                    member.type = tarfile.SYMTYPE if content[0] == "symlink" else tarfile.LNKTYPE
                    member.linkname = content[1]
                data = content.encode() if isinstance(content, str) else content
                member.size = len(data) if isinstance(data, bytes) else 0
                tar.addfile(member, io.BytesIO(data) if isinstance(data, bytes) else None)
        return target.getvalue()

    return make


@pytest.fixture
def stack(pack: Callable[..., bytes]) -> Callable[..., Tree]:
    """A tree of layers, the lowest first."""

    def make(*layers: Mapping[str, Content]) -> Tree:
        tree = Tree()
        for layer in layers:
            tree.apply(read_layer(io.BytesIO(pack(layer))))
        return tree

    return make


@pytest.fixture
def take(stack: Callable[..., Tree]) -> Callable[..., Inventory]:
    """The inventory of layers."""
    return lambda *layers: Inventory(stack(*layers))
