from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from flbuild.base import debian as debian_module
from flbuild.base.debian import DebianBases
from flbuild.errors import (
    BaseMovedError,
    BuildError,
    FlbuildError,
    HostError,
    RecipeError,
    UnreachableError,
)
from flbuild.lock.model import LockedDebianBase
from flbuild.progress import Silent
from flbuild.recipe.model import DebianBase
from flbuild.settings import Settings

RECIPE = DebianBase(debian="bookworm", packages=("python3", "ca-certificates"))
PLATFORM = "linux/amd64"


def status(**versions: str) -> str:
    return "\n".join(
        f"Package: {name}\nStatus: install ok installed\nArchitecture: amd64\nVersion: {version}\n"
        for name, version in versions.items()
    )


@dataclass
class Archive:
    """What the fake mmdebstrap makes, and how it was called."""

    folder: Path
    pack: Callable[..., bytes]

    def offer(self, note: str = "", **versions: str) -> None:
        content = self.pack({"etc/note": note, "var/lib/dpkg/status": status(**versions)})
        (self.folder / "root.tar").write_bytes(content)

    def fail(self, text: str) -> None:
        (self.folder / "failure").write_text(text)

    @property
    def calls(self) -> list[dict[str, Any]]:
        path = self.folder / "calls"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def archive(tmp_path: Path, pack: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch) -> Archive:
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "mmdebstrap"
    shutil.copyfile(Path(__file__).with_name("fake_mmdebstrap.py"), program)
    program.chmod(0o755)
    python = Path(sys.executable).parent
    monkeypatch.setenv("PATH", f"{folder}:{python}:/usr/bin:/bin")
    monkeypatch.setattr(debian_module.host, "machine", lambda: "x86_64")
    found = Archive(folder, pack)
    found.offer(libc6="2.36-9+deb12u10", bash="5.2")
    return found


@pytest.fixture
def bases(make_settings: Callable[..., Settings], archive: Archive) -> Callable[..., DebianBases]:
    """`bases(**settings)`: bases with a cache that lasts for the test."""
    return lambda **changes: DebianBases(make_settings().model_copy(update=changes), Silent())


def emptied(tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "cache")


def test_a_base_is_locked_by_packages_and_hash(bases: Callable[..., DebianBases], tmp_path: Path) -> None:
    base = bases().lock(RECIPE, PLATFORM)
    assert (base.suite, base.requested) == ("bookworm", ("ca-certificates", "python3"))
    assert [(item.name, item.version) for item in base.packages] == [
        ("bash", "5.2"),
        ("libc6", "2.36-9+deb12u10"),
    ]
    assert base.glibc == "2.36"
    layer = tmp_path / "cache/blobs/sha256" / base.layer.digest.removeprefix("sha256:")
    assert layer.stat().st_size == base.layer.size


def test_the_bootstrap_sees_nothing_of_the_caller_but_the_way_to_the_network(
    bases: Callable[..., DebianBases], archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1")
    monkeypatch.setenv("SECRET_TOKEN", "x")
    monkeypatch.setenv("http_proxy", "http://proxy.example:3128")
    old = os.umask(0o077)
    try:
        bases().lock(RECIPE, PLATFORM)
    finally:
        os.umask(old)
    (call,) = archive.calls
    seen = call["environment"]
    assert (seen["TZ"], seen["LC_ALL"], seen["SOURCE_DATE_EPOCH"]) == ("UTC", "C", "1767225600")
    assert seen["http_proxy"] == "http://proxy.example:3128"
    assert "SECRET_TOKEN" not in seen
    assert call["umask"] == 0o022


def test_packages_are_asked_for_in_one_order_and_the_archive_is_mmdebstraps_own(
    bases: Callable[..., DebianBases], archive: Archive
) -> None:
    bases().lock(RECIPE, PLATFORM)
    arguments = archive.calls[0]["arguments"]
    assert "--include=ca-certificates,python3" in arguments
    assert "--architectures=amd64" in arguments
    assert arguments[-2] == "bookworm"
    assert arguments[-1].endswith("root.tar")


def test_other_sources_and_certificates_reach_the_bootstrap_and_not_the_base(
    bases: Callable[..., DebianBases], archive: Archive
) -> None:
    line = "deb http://mirror.example/debian bookworm main"
    bases(debian_sources=(line,), ca_bundle=Path("/etc/ssl/company.pem")).lock(RECIPE, PLATFORM)
    arguments = archive.calls[0]["arguments"]
    assert arguments[-1] == line
    assert '--aptopt=Acquire::https::CaInfo "/etc/ssl/company.pem"' in arguments
    hooks = [item for item in arguments if item.startswith("--customize-hook=")]
    assert any("/etc/apt/sources.list" in hook for hook in hooks)
    assert any("/^Acquire::https::CaInfo/d" in hook for hook in hooks)


def test_a_proxy_of_the_settings_wins(bases: Callable[..., DebianBases], archive: Archive) -> None:
    bases(proxy=SecretStr("http://ann:pw@proxy.example")).lock(RECIPE, PLATFORM)
    assert archive.calls[0]["environment"]["https_proxy"] == "http://ann:pw@proxy.example"


def test_a_locked_base_comes_from_the_cache(bases: Callable[..., DebianBases], archive: Archive) -> None:
    base = bases().lock(RECIPE, PLATFORM)
    bases().layer(base, PLATFORM)
    assert len(archive.calls) == 1


def test_a_locked_base_is_made_again_where_the_cache_is_empty(
    bases: Callable[..., DebianBases], archive: Archive, tmp_path: Path
) -> None:
    base = bases().lock(RECIPE, PLATFORM)
    emptied(tmp_path)
    assert bases().layer(base, PLATFORM).is_file()
    assert len(archive.calls) == 2


def test_offline_uses_the_cache_and_makes_nothing(
    bases: Callable[..., DebianBases], archive: Archive, tmp_path: Path
) -> None:
    base = bases().lock(RECIPE, PLATFORM)
    offline = DebianBases(bases()._settings, Silent(), offline=True)
    assert offline.layer(base, PLATFORM).is_file()
    emptied(tmp_path)
    with pytest.raises(HostError, match="--offline forbids"):
        offline.layer(base, PLATFORM)
    assert len(archive.calls) == 1


def test_a_damaged_layer_in_the_cache_is_made_again(
    bases: Callable[..., DebianBases], archive: Archive
) -> None:
    base = bases().lock(RECIPE, PLATFORM)
    path = bases().layer(base, PLATFORM)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.chmod(0o644)
    path.write_bytes(content)
    assert bases().layer(base, PLATFORM).read_bytes() != content
    assert len(archive.calls) == 2


def test_packages_that_moved_are_named_with_both_versions_and_the_way_out(
    bases: Callable[..., DebianBases], archive: Archive, tmp_path: Path
) -> None:
    base = bases().lock(RECIPE, PLATFORM)
    emptied(tmp_path)
    archive.offer(libc6="2.36-9+deb12u11", dash="0.5")
    with pytest.raises(BaseMovedError) as moved:
        bases().layer(base, PLATFORM)
    assert str(moved.value).splitlines() == [
        "Debian's archive has moved on since the bookworm base was locked:",
        "  bash: 5.2 -> absent",
        "  dash: absent -> 0.5",
        "  libc6: 2.36-9+deb12u10 -> 2.36-9+deb12u11",
        "  cause: updates replace packages in the archive, and the old ones are removed",
        "  next:  flbuild lock --refresh-base locks the base as it is now; images then get a new digest",
    ]
    assert moved.value.exit_code == 4


def test_the_same_packages_with_other_bytes_are_told_apart(
    bases: Callable[..., DebianBases], archive: Archive, tmp_path: Path
) -> None:
    base = bases().lock(RECIPE, PLATFORM)
    emptied(tmp_path)
    archive.offer(note="another dpkg", libc6="2.36-9+deb12u10", bash="5.2")
    with pytest.raises(BaseMovedError, match="locked packages, but the base has other bytes"):
        bases().layer(base, PLATFORM)


def test_another_compression_is_told_apart(bases: Callable[..., DebianBases], tmp_path: Path) -> None:
    base = bases().lock(RECIPE, PLATFORM)
    emptied(tmp_path)
    layer = base.layer.model_copy(update={"digest": f"sha256:{'0' * 64}"})
    with pytest.raises(BaseMovedError, match="packs to"):
        bases().layer(base.model_copy(update={"layer": layer}), PLATFORM)


def locked_again(base: LockedDebianBase, bases: Callable[..., DebianBases]) -> LockedDebianBase:
    with pytest.raises(BaseMovedError):
        bases().layer(base, PLATFORM)
    return bases().lock(RECIPE, PLATFORM)


def test_a_base_that_was_found_moved_is_not_made_a_second_time_to_lock_it(
    bases: Callable[..., DebianBases], archive: Archive, tmp_path: Path
) -> None:
    base = bases().lock(RECIPE, PLATFORM)
    emptied(tmp_path)
    archive.offer(libc6="2.37-1")
    assert locked_again(base, bases).glibc == "2.37"
    assert len(archive.calls) == 2


def test_an_older_base_in_the_cache_is_not_the_state_of_the_archive(
    bases: Callable[..., DebianBases], archive: Archive, tmp_path: Path
) -> None:
    bases().lock(RECIPE, PLATFORM)
    for note in (tmp_path / "cache/bases").glob("*.json"):
        os.utime(note, (1, 1))
    archive.offer(libc6="2.37-1")
    assert bases().lock(RECIPE, PLATFORM).glibc == "2.37"


def test_another_request_is_another_base(bases: Callable[..., DebianBases], archive: Archive) -> None:
    bases().lock(RECIPE, PLATFORM)
    bases().lock(DebianBase(debian="bookworm"), PLATFORM)
    bases(debian_sources=("http://mirror.example/debian",)).lock(RECIPE, PLATFORM)
    assert len(archive.calls) == 3


def test_file_lists_are_made_again(bases: Callable[..., DebianBases]) -> None:
    base = bases().lock(RECIPE, PLATFORM)
    assert bases().relist(base, PLATFORM) == base


@pytest.mark.parametrize(
    ("log", "kind", "said"),
    [
        ("E: Temporary failure resolving 'mirror'", UnreachableError, "check the network"),
        ("Err:1 Could not connect to 10.0.0.1:80", UnreachableError, "check the network"),
        ("E: unable to find a suitable mode", HostError, "run it as root"),
        ("cp: error writing 'x': No space left on device", HostError, "make room"),
        ("W: GPG error: NO_PUBKEY 0E98404D386FA1D9", HostError, "debian-archive-keyring"),
        ("E: The repository 'x' does not have a Release file.", RecipeError, "no suite 'bookworm'"),
        ("E: Unable to locate package pyhton3\nE: x", RecipeError, "no package pyhton3"),
        ("E: something else", BuildError, "something else"),
    ],
)
def test_a_failed_bootstrap_says_why_by_class(
    bases: Callable[..., DebianBases], archive: Archive, log: str, kind: type[FlbuildError], said: str
) -> None:
    archive.fail(f"I: start\n{log}\n")
    with pytest.raises(kind, match=said) as failed:
        bases().lock(RECIPE, PLATFORM)
    assert failed.value.log is not None
    assert log in failed.value.log.read_text()


def test_a_failed_bootstrap_leaves_no_layer(
    bases: Callable[..., DebianBases], archive: Archive, tmp_path: Path
) -> None:
    archive.fail("E: no")
    with pytest.raises(BuildError):
        bases().lock(RECIPE, PLATFORM)
    assert not (tmp_path / "cache/blobs").exists()
    assert list((tmp_path / "cache/bases").iterdir()) == []


def test_a_missing_mmdebstrap_names_its_package(
    bases: Callable[..., DebianBases], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HostError, match="apt-get install mmdebstrap"):
        bases().lock(RECIPE, PLATFORM)


def test_another_architecture_is_refused(bases: Callable[..., DebianBases]) -> None:
    with pytest.raises(HostError, match="arm64 cannot be made on this machine"):
        bases().lock(RECIPE, "linux/arm64")


def test_a_base_that_moved_is_locked_again_by_the_name_of_its_image():
    assert "lock --refresh-base " in BaseMovedError("it moved").remedy
    assert "lock cpu --refresh-base " in BaseMovedError("it moved").of("cpu").remedy
