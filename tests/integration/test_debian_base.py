"""Debian bases from the real archive."""

from __future__ import annotations

import gzip
import os
import struct
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from flbuild.base.bootstrap import EPOCH
from flbuild.base.debian import DebianBases
from flbuild.lock.model import LockedDebianBase
from flbuild.progress import Silent
from flbuild.recipe.model import DebianBase
from flbuild.settings import load_settings

RECIPE = DebianBase(debian="bookworm", packages=("python3", "ca-certificates"))
PLATFORM = "linux/amd64"


@dataclass(frozen=True)
class Made:
    """A base with its files: content of small regular ones, and what the tar says of each."""

    base: LockedDebianBase
    layer: Path
    members: dict[str, tarfile.TarInfo]

    def read(self, name: str) -> bytes:
        with gzip.open(self.layer) as plain, tarfile.open(fileobj=plain, mode="r|") as tar:
            for member in tar:
                if member.name.removeprefix("./") == name:
                    return tar.extractfile(member).read()
        raise FileNotFoundError(name)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """One base, made in this process's own surroundings."""
    return make(tmp_path_factory.mktemp("one"))


def make(cache: Path) -> Made:
    settings = load_settings(None, {**os.environ, "FLBUILD_CACHE_DIR": str(cache)})
    bases = DebianBases(settings, Silent())
    base = bases.lock(RECIPE, PLATFORM)
    layer = bases.layer(base, PLATFORM)
    with gzip.open(layer) as plain, tarfile.open(fileobj=plain, mode="r|") as tar:
        members = {member.name.removeprefix("./").rstrip("/"): member for member in tar}
    return Made(base, layer, members)


@pytest.fixture
def other_surroundings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Another time zone, locale and file mode mask, and no SOURCE_DATE_EPOCH."""
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.setenv("PYTHONHASHSEED", "42")
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    old = os.umask(0o077)
    yield
    os.umask(old)


@pytest.mark.usefixtures("other_surroundings")
def test_two_bootstraps_give_the_same_bytes(made: Made, tmp_path: Path) -> None:
    again = make(tmp_path / "elsewhere")
    assert again.base.packages == made.base.packages
    assert again.base.layer == made.base.layer


def test_what_is_locked_is_what_is_in_it(made: Made) -> None:
    versions = {package.name: package.version for package in made.base.packages}
    assert versions["python3"].startswith("3.11.")
    assert made.base.glibc == versions["libc6"].partition("-")[0] == "2.36"
    assert made.base.requested == ("ca-certificates", "python3")
    assert "usr/bin/python3.11" in made.members


def test_nothing_in_it_tells_of_this_machine(made: Made) -> None:
    absent = ("etc/hostname", "etc/resolv.conf", "etc/apt/sources.list", "var/log/dpkg.log", "etc/machine-id")
    assert [name for name in absent if name in made.members] == []
    below = ("var/lib/apt/lists/", "var/cache/apt/", "etc/apt/sources.list.d/", "tmp/", "root/.cache")
    left = [
        name
        for name, member in made.members.items()
        if name.startswith(below) and member.isfile() and member.size
    ]
    assert left == []
    assert made.read("etc/apt/apt.conf.d/99mmdebstrap").decode().splitlines() == [
        'Acquire::Languages "none";',
        'APT::Install-Recommends "false";',
    ]


def test_no_file_is_newer_than_the_epoch(made: Made) -> None:
    assert max(member.mtime for member in made.members.values()) <= EPOCH


def test_the_standard_library_is_compiled_in_a_form_that_no_time_invalidates(made: Made) -> None:
    with gzip.open(made.layer) as plain, tarfile.open(fileobj=plain, mode="r|") as tar:
        flags = {
            member.name: struct.unpack("<L", tar.extractfile(member).read(8)[4:])[0]
            for member in tar
            if member.name.endswith(".pyc")
        }
    # Hash-based, not checked at run time (PEP 552).
    assert set(flags.values()) == {0b01}
    sources = [name for name in made.members if name.startswith("usr/lib/python3") and name.endswith(".py")]
    assert len(flags) > 0.9 * len(sources) > 400


def test_manuals_and_translations_are_left_out_and_licences_are_not(made: Made) -> None:
    files = [name for name, member in made.members.items() if member.isfile()]
    assert not [name for name in files if name.startswith(("usr/share/man/", "usr/share/locale/"))]
    documents = [name for name in files if name.startswith("usr/share/doc/")]
    assert documents
    assert all(name.endswith("copyright") for name in documents)
