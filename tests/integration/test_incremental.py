"""Working on the plugin: a second build makes one layer, and its push sends little more than that."""

from __future__ import annotations

from pathlib import Path

import pytest
from cache_copy import copy_cache
from checkout import Checkout
from cpu_image import CpuImage
from registry_server import RegistryServer

MODULE = "plugin/vllm_fl/__init__.py"


@pytest.fixture
def work(cpu_image: CpuImage, cache_dir: Path, tmp_path: Path) -> Checkout:
    """A clone of the image's checkout with a cache that nobody else writes to."""
    cache = copy_cache(cache_dir, tmp_path / "cache")
    environ = {**cpu_image.checkout.environ, "FLBUILD_CACHE_DIR": str(cache)}
    return cpu_image.checkout.clone(tmp_path / "work", environ)


def test_after_a_change_of_the_plugin_only_its_layer_is_made_and_sent(
    cpu_image: CpuImage, work: Checkout, registry: RegistryServer, tmp_path: Path
) -> None:
    command = ["image", "cpu", "--push", "--reference", f"{registry.host}/incremental/cpu", "--json"]
    assert work.flbuild(*command).json["manifest"] == cpu_image.digest
    unchanged = work.flbuild(*command).json
    assert unchanged["manifest"] == cpu_image.digest
    assert unchanged["push"]["uploaded"] == unchanged["push"]["mounted"] == 0
    notes = tmp_path / "cache" / "layers"
    before = {note: note.stat().st_mtime_ns for note in notes.iterdir()}

    text = (work.root / MODULE).read_text()
    revision = work.commit(MODULE, f"{text}\nCHANGED = True\n")
    second = work.flbuild(*command).json

    assert second["plugin"]["revision"] == revision
    assert second["layers"][:-1] == cpu_image.summary["layers"][:-1]
    layer = second["layers"][-1]
    assert layer["digest"] != cpu_image.summary["layers"][-1]["digest"]
    assert len([note for note in notes.iterdir() if note.stat().st_mtime_ns != before.get(note)]) == 1
    assert second["push"]["uploaded"] == 1
    assert layer["size"] < second["push"]["sent"] < 1.2 * layer["size"]


def test_a_change_that_is_not_committed_is_told_and_not_built(cpu_image: CpuImage, work: Checkout) -> None:
    (work.root / MODULE).write_text("raise SystemExit\n")
    done = work.flbuild("image", "cpu", "--output", "oci:build/cpu", "--json")
    assert f"uncommitted changes are not in the wheel: {MODULE}" in done.stderr
    assert done.json["manifest"] == cpu_image.digest
