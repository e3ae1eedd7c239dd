"""The same lock and the same commit of the plugin give the same image, wherever and by whom it is built."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from cache_copy import copy_cache
from checkout import Checkout
from cpu_image import CpuImage

from flbuild.lock.io import read_lock

OTHER_USER = "nobody"

AS_OTHER_USER = (
    # It may read what it does not own, so that it does not matter where this checkout and its Python are.
    *("setpriv", f"--reuid={OTHER_USER}", "--regid=nogroup", "--clear-groups"),
    *("--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search"),
    *("sh", "-c", 'umask 077 && exec "$0" "$@"'),
)


def files_below(folder: Path) -> dict[str, bytes]:
    """The names of a layout's files with their content; a blob's name is its content."""
    return {
        str(path.relative_to(folder)): b"" if "blobs" in path.parts else path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users can enter, which pytest's own cannot be."""
    with tempfile.TemporaryDirectory(prefix="flbuild-tests-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.timeout(900)
def test_another_user_elsewhere_with_no_layers_and_another_environment_builds_the_same_digest(
    cpu_image: CpuImage, cache_dir: Path, open_folder: Path
) -> None:
    assert os.geteuid() == 0, "only root can become another user: run the integration tests as root"
    home = open_folder / "somewhere" / "else"
    home.mkdir(parents=True)
    entry = read_lock(cpu_image.checkout.root / "images.lock").images["cpu"]
    # Downloads are kept, and so is the base: Debian's archive may have moved on. All else is made anew.
    cache = copy_cache(
        cache_dir, home / "cache", without={"layers", "wheels", "interpreters", "build-tools"}, links=False
    )
    for blob in (cache / "blobs" / "sha256").iterdir():
        if blob.name != entry.base.layer.digest.removeprefix("sha256:"):
            blob.unlink()
    for source in entry.sources:
        shutil.rmtree(cache / "files" / source.sha256)
    shutil.rmtree(cache / "files" / cpu_image.summary["plugin"]["sha256"])
    clone = cpu_image.checkout.clone(home / "project")
    (home / "tmp").mkdir()
    subprocess.run(["chown", "--recursive", f"{OTHER_USER}:nogroup", str(home)], check=True)

    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "TMPDIR": str(home / "tmp"),
        "FLBUILD_CACHE_DIR": str(cache),
        "TZ": "Pacific/Kiritimati",
        "LC_ALL": "POSIX",
        "LANG": "tr_TR.UTF-8",
        "PYTHONHASHSEED": "4242",
    }
    other = Checkout(clone.root, environ, AS_OTHER_USER)
    layout = home / "project" / "out"
    done = other.flbuild("image", "cpu", "--output", f"oci:{layout}", "--offline", "--json")
    assert layout.stat().st_uid != 0
    assert "build vllm" in done.stderr
    assert "layer torch" in done.stderr
    assert done.json["plugin"] == cpu_image.summary["plugin"]
    assert done.json["layers"] == cpu_image.summary["layers"]
    assert done.json["manifest"] == cpu_image.digest
    assert files_below(layout) == files_below(cpu_image.layout)


def test_an_export_without_git_gives_the_same_plugin_wheel_and_the_same_digest(
    cpu_image: CpuImage, cache_dir: Path, tmp_path: Path
) -> None:
    root = tmp_path / "export"
    root.mkdir()
    cpu_image.checkout.git("archive", "--format=tar", f"--output={tmp_path / 'export.tar'}", "HEAD")
    subprocess.run(["tar", "--extract", "--file", str(tmp_path / "export.tar"), "-C", str(root)], check=True)
    shutil.copy(cpu_image.checkout.root / "images.lock", root)
    cache = copy_cache(cache_dir, tmp_path / "cache", without={"wheels"})
    environ = {**cpu_image.checkout.environ, "FLBUILD_CACHE_DIR": str(cache), "SOURCE_DATE_EPOCH": "1"}
    assert not (cache / "wheels").exists()
    done = Checkout(root, environ).flbuild("image", "cpu", "--output", "oci:out", "--offline", "--json")
    assert list((cache / "wheels").iterdir())
    assert done.json["plugin"] == cpu_image.summary["plugin"]
    assert done.json["manifest"] == cpu_image.digest
