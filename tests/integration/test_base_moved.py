"""A Debian base whose packages Debian's archive has replaced since it was locked."""

from __future__ import annotations

from pathlib import Path

import pytest
from cache_copy import copy_cache
from checkout import Checkout
from cpu_image import CpuImage

from flbuild.lock.io import read_lock, update_lock
from flbuild.lock.model import Lock, LockedDebianBase

PACKAGE, OLD_VERSION = "base-files", "1.0"
NOWHERE = f"sha256:{'0' * 64}"


def base_of(project: Checkout) -> LockedDebianBase:
    base = read_lock(project.root / "images.lock").images["cpu"].base
    assert isinstance(base, LockedDebianBase)
    return base


def version_of(base: LockedDebianBase) -> str:
    (found,) = [package.version for package in base.packages if package.name == PACKAGE]
    return found


@pytest.fixture
def outdated(cpu_image: CpuImage, cache_dir: Path, tmp_path: Path) -> Checkout:
    """A clone that was locked when one package had an older version, and a cache without that base."""
    cache = copy_cache(cache_dir, tmp_path / "cache")
    project = cpu_image.checkout.clone(
        tmp_path / "project", {**cpu_image.checkout.environ, "FLBUILD_CACHE_DIR": str(cache)}
    )
    base = base_of(project)
    (cache / "blobs" / "sha256" / base.layer.digest.removeprefix("sha256:")).unlink()
    packages = tuple(
        package.model_copy(update={"version": OLD_VERSION}) if package.name == PACKAGE else package
        for package in base.packages
    )
    layer = base.layer.model_copy(update={"digest": NOWHERE, "diff_id": NOWHERE})
    older = base.model_copy(update={"packages": packages, "layer": layer})

    def change(lock: Lock) -> Lock:
        entry = lock.images["cpu"].model_copy(update={"base": older, "seal": None})
        return lock.model_copy(update={"images": {**lock.images, "cpu": entry}})

    update_lock(project.root / "images.lock", change)
    return project


def test_an_archive_that_moved_on_stops_the_build_or_has_the_base_locked_again(
    cpu_image: CpuImage, outdated: Checkout
) -> None:
    before = (outdated.root / "images.lock").read_text()
    stopped = outdated.flbuild("image", "cpu", "--output", "oci:out", status=4)
    assert f"  {PACKAGE}: {OLD_VERSION} -> " in stopped.stderr
    assert "next:  flbuild lock cpu --refresh-base" in stopped.stderr
    assert stopped.stdout == ""
    assert (outdated.root / "images.lock").read_text() == before
    assert not (outdated.root / "out").exists()

    built = outdated.flbuild("image", "cpu", "--output", "oci:out", "--refresh-base", "--json")
    assert f"  {PACKAGE}: {OLD_VERSION} -> " in built.stderr
    assert "the base of cpu is locked again, as it is now" in built.stderr
    base = base_of(outdated)
    assert f"{PACKAGE}: {OLD_VERSION} -> {version_of(base)}\n" in stopped.stderr
    assert built.json["layers"][0]["digest"] == base.layer.digest
    # What is not of the base stayed as it was locked.
    locked = (read_lock(place.root / "images.lock").images["cpu"] for place in (outdated, cpu_image.checkout))
    now, then = ((entry.packages, entry.sources) for entry in locked)
    assert now == then
    outdated.flbuild("lock", "cpu", "--check")
    outdated.flbuild("verify", "digest", "oci:out")
