from __future__ import annotations

import io
import tarfile
from collections.abc import Callable

import pytest

from flbuild.base.layer import Entry, LayerFacts, read_layer


def read(packed: bytes) -> LayerFacts:
    return read_layer(io.BytesIO(packed))


def test_entries_keep_their_order_and_kind(pack: Callable[..., bytes]) -> None:
    facts = read(
        pack({"./etc": None, "/etc/a": "x", "etc/b": ("symlink", "a"), "etc/c": ("hardlink", "./etc/a")})
    )
    assert facts.entries == [
        Entry("etc", "folder"),
        Entry("etc/a", "file"),
        Entry("etc/b", "symlink", "a"),
        Entry("etc/c", "hardlink", "etc/a"),
    ]


def test_whiteouts_are_told_from_files(pack: Callable[..., bytes]) -> None:
    facts = read(pack({"a/.wh.b": "", "c/.wh..wh..opq": "", ".wh.top": ""}))
    assert (facts.whiteouts, facts.opaque, facts.entries) == (["a/b", "top"], ["c"], [])


def test_only_what_describes_an_installation_is_kept(pack: Callable[..., bytes]) -> None:
    facts = read(
        pack(
            {
                "p/site-packages/a-1.dist-info/METADATA": "Name: a",
                "p/site-packages/a-1.dist-info/LICENSE": "text",
                "p/site-packages/a/__init__.py": "code",
                "var/lib/dpkg/status": "Package: x",
            }
        )
    )
    assert set(facts.contents) == {"p/site-packages/a-1.dist-info/METADATA", "var/lib/dpkg/status"}


@pytest.mark.parametrize(
    "path",
    [
        "lib/x86_64-linux-gnu/libc.so.6",
        "usr/lib/aarch64-linux-gnu/libc.so.6",
        "usr/lib64/libc.so.6",
        "lib64/libc-2.28.so",
    ],
)
def test_of_the_c_library_the_version_is_kept(pack: Callable[..., bytes], path: str) -> None:
    text = b"\x7fELF\0GNU C Library (Ubuntu GLIBC 2.35-0ubuntu3.8) stable release version 2.35.\nCopyright"
    assert read(pack({path: text})).contents == {path: b"2.35"}


def test_another_library_of_that_name_is_not_read(pack: Callable[..., bytes]) -> None:
    assert read(pack({"opt/x/libc.so.6": b"GNU C Library (x) release version 2.1."})).contents == {}


@pytest.mark.parametrize("name", [".", "/", "..", "../etc/passwd", "a/../../b"])
def test_what_is_not_inside_is_passed_over(pack: Callable[..., bytes], name: str) -> None:
    assert read(pack({name: "x", "b": "x"})).entries == [Entry("b", "file")]


def test_a_name_that_is_no_text_is_passed_over() -> None:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=tarfile.GNU_FORMAT, encoding="latin-1") as tar:
        tar.addfile(tarfile.TarInfo("caf\xe9"))
        tar.addfile(tarfile.TarInfo("tea"))
    assert read(target.getvalue()).entries == [Entry("tea", "file")]


def test_facts_survive_being_kept(pack: Callable[..., bytes]) -> None:
    facts = read(pack({"é/x.pth": b"\xff\n/src", "b": ("symlink", "é"), "a/.wh.b": "", "a/.wh..wh..opq": ""}))
    assert LayerFacts.unpack(facts.pack()) == facts
    assert facts.pack() == facts.pack()


@pytest.mark.parametrize("packed", [b"", b"\x1f\x8b", b"{}"])
def test_damaged_facts_are_an_error_of_a_known_kind(packed: bytes) -> None:
    with pytest.raises((OSError, EOFError, ValueError)):
        LayerFacts.unpack(packed)
