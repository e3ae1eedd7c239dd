from __future__ import annotations

import os
import struct

import pytest

from flbuild.errors import RecipeError, RemoteMovedError, VerificationError
from flbuild.files import sha256_file
from flbuild.index.client import IndexClient
from flbuild.index.store import FileStore
from flbuild.index.tags import Environment
from flbuild.lock.model import LockedFile
from flbuild.lock.pin import Pinner
from flbuild.lock.resolve import Candidate, Resolved
from flbuild.progress import Silent

IMAGE = Environment("3.11", "linux/amd64", "2.36")


@pytest.fixture
def pinner(fake_index, make_settings):
    """`pinner(old=..., moving=...)`: pins for x86-64 against the index on loopback."""

    def make(old=(), moving=()):
        settings = make_settings(pypi=fake_index.url())
        client = IndexClient(settings, Silent(), wait=0)
        store = FileStore(settings, client, Silent())
        known = {file.name: file for file in old}
        return Pinner(client, store, IMAGE, Silent(), old=known, moving=frozenset(moving))

    return make


@pytest.fixture
def offer(tmp_path, fake_index, make_wheel):
    """`offer(name, version, ...)`: a wheel on the index, as the resolver names it."""

    def make(name, version, *, sha256=True, size=True, **options):
        path = make_wheel(tmp_path / "made", name, version, **options)
        fake_index.add(path)
        url = f"http://127.0.0.1:{fake_index.port}/pypi/files/{path.name}"
        return Candidate(
            path.name,
            url,
            sha256_file(path) if sha256 else None,
            path.stat().st_size if size else None,
        )

    return make


def test_a_pin_is_file_hash_size_and_python(tmp_path, pinner, offer):
    found = offer("thing", "1.0", requires_python=">=3.9")
    path = tmp_path / "made" / found.filename
    assert pinner().pin("thing", "1.0", "pypi", [found]) == LockedFile(
        name="thing",
        version="1.0",
        index="pypi",
        filename=path.name,
        sha256=sha256_file(path),
        size=path.stat().st_size,
        requires_python=">=3.9",
    )


def test_the_best_of_several_wheels_is_pinned(pinner, offer):
    offers = [
        offer("thing", "1.0"),
        offer("thing", "1.0", tag="cp311-cp311-manylinux_2_28_x86_64"),
        offer("thing", "1.0", tag="cp311-cp311-manylinux_2_39_x86_64"),
    ]
    assert pinner().pin("thing", "1.0", "pypi", offers).filename == offers[1].filename


@pytest.mark.parametrize("known", [{"sha256": False, "size": False}, {"size": False}])
def test_what_the_index_does_not_say_is_found_out(tmp_path, pinner, offer, known):
    found = offer("thing", "1.0", **known)
    path = tmp_path / "made" / found.filename
    pin = pinner().pin("thing", "1.0", "pypi", [found])
    assert (pin.sha256, pin.size) == (sha256_file(path), path.stat().st_size)


def test_a_server_that_gives_no_parts_is_asked_for_the_whole_wheel(fake_index, pinner, offer):
    found = offer("thing", "1.0", requires_python=">=3.9")
    fake_index.answers[found.filename] = [200]
    assert pinner().pin("thing", "1.0", "pypi", [found]).requires_python == ">=3.9"


def test_no_fitting_wheel_is_explained(pinner, offer):
    found = offer("thing", "1.0", tag="cp311-cp311-manylinux_2_28_aarch64")
    with pytest.raises(RecipeError, match=r"thing 1\.0 from index 'pypi' does not fit.*no wheel for x86_64"):
        pinner().pin("thing", "1.0", "pypi", [found])


def test_a_locked_file_stays_although_a_better_one_appeared(pinner, offer):
    pure = offer("thing", "1.0")
    old = pinner().pin("thing", "1.0", "pypi", [pure])
    native = offer("thing", "1.0", tag="cp311-cp311-manylinux_2_28_x86_64")
    assert pinner([old]).pin("thing", "1.0", "pypi", [pure, native]) == old
    moved = pinner([old], moving=["thing"]).pin("thing", "1.0", "pypi", [pure, native])
    assert moved.filename == native.filename


def test_a_locked_file_does_not_stay_on_another_index(pinner, offer):
    found = offer("thing", "1.0")
    old = pinner().pin("thing", "1.0", "pypi", [found]).model_copy(update={"index": "other"})
    assert pinner([old]).pin("thing", "1.0", "pypi", [found]).index == "pypi"


def test_b64_a_file_replaced_on_the_index_is_refused_until_it_may_move(pinner, offer):
    found = offer("thing", "1.0")
    old = pinner().pin("thing", "1.0", "pypi", [found]).model_copy(update={"sha256": "0" * 64})
    with pytest.raises(RemoteMovedError, match=r"(?s)other bytes.*--upgrade thing"):
        pinner([old]).pin("thing", "1.0", "pypi", [found])
    assert pinner([old], moving=["thing"]).pin("thing", "1.0", "pypi", [found]).sha256 == found.sha256


def test_b23_native_code_is_seen_in_the_list_of_files_of_a_remote_wheel(pinner, offer):
    found = offer("thing", "1.0", files={"thing/_c.so": b"not even ELF"})
    with pytest.raises(VerificationError, match="tagged 'any'"):
        pinner().pin("thing", "1.0", "pypi", [found])


def elf(machine, glibc=17):
    header = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HH", 3, machine) + bytes(44)
    return header + f"\0GLIBC_2.{glibc}\0".encode()


AARCH64, X86_64 = 183, 62


def test_B56_native_code_of_another_machine_than_the_tag_says_is_seen_in_a_remote_wheel(
    fake_index, pinner, offer
):
    files = {"thing/_c.so": elf(AARCH64), "thing/data.bin": os.urandom(1 << 20)}
    found = offer("thing", "1.0", tag="cp311-cp311-manylinux_2_28_x86_64", files=files)
    with pytest.raises(VerificationError, match=r"thing/_c\.so is for aarch64, the name says .*x86_64"):
        pinner().pin("thing", "1.0", "pypi", [found])


def test_B13_a_wheel_that_states_no_glibc_is_read_and_refused_if_the_base_is_older(pinner, offer):
    tag = "cp311-cp311-linux_x86_64"
    fitting = offer("thing", "1.0", tag=tag, files={"thing/_c.so": elf(X86_64, 36)})
    assert pinner().pin("thing", "1.0", "pypi", [fitting]).filename == fitting.filename
    newer = offer("other", "1.0", tag=tag, files={"other/_c.so": elf(X86_64, 39)})
    with pytest.raises(VerificationError, match=r"needs glibc 2\.39, the base has 2\.36"):
        pinner().pin("other", "1.0", "pypi", [newer])


def test_b22_hidden_headers_are_seen_in_a_remote_wheel(pinner, offer):
    metadata = "Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n\nRequires-Dist: other\n"
    found = offer("thing", "1.0", metadata=metadata)
    with pytest.raises(VerificationError, match="early blank line"):
        pinner().pin("thing", "1.0", "pypi", [found])


def test_metadata_are_asked_for_once(fake_index, pinner, offer):
    found = offer("thing", "1.0")
    one = pinner()
    pin = one.pin("thing", "1.0", "pypi", [found])
    fake_index.requests.clear()
    assert b"Name: thing" in one.metadata(pin)
    assert not fake_index.requests


def test_many_pins_come_in_the_order_asked_for(pinner, offer):
    items = [Resolved(f"thing{n}", "1.0", (offer(f"thing{n}", "1.0"),)) for n in range(20)]
    assert [file.name for file in pinner().pin_all(items, "pypi")] == [item.name for item in items]
