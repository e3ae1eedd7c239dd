from __future__ import annotations

import threading
from pathlib import Path

import pytest
import yaml

from flbuild.errors import LockStaleError
from flbuild.lock.io import dump_lock, parse_lock, read_lock, update_lock, write_lock
from flbuild.lock.model import (
    BaseDistribution,
    GitSource,
    Lock,
    LockedDebianBase,
    LockedFile,
    LockedImage,
    LockedLayer,
    LockedSource,
    Output,
    PluginRecord,
    Unresolved,
)

SHA = "ab" * 32
DIGEST = f"sha256:{SHA}"


def a_file(name: str, version: str = "1.0") -> LockedFile:
    return LockedFile(
        name=name,
        version=version,
        index="pypi",
        filename=f"{name}-{version}-py3-none-any.whl",
        sha256=SHA,
        size=0,
        requires_python=">=3.10",
    )


def a_lock() -> Lock:
    base = LockedDebianBase(
        suite="bookworm",
        epoch=0,
        layer=LockedLayer(digest=DIGEST, size=5, media_type="application/x", diff_id=DIGEST),
        packages=(),
        inventory=(BaseDistribution(name="old", version="1", location="/x", files=("/x/a", "/x/b")),),
    )
    source = LockedSource(
        name="kernels",
        version="3.11",
        source=GitSource(git="https://example.org/k", commit="c" * 40, archive_sha256=SHA),
        env={"A": "1"},
        filename="kernels-3.11-py3-none-any.whl",
        sha256=SHA,
        size=1,
    )
    output = Output(
        target="release",
        manifest=DIGEST,
        config=DIGEST,
        layers=(DIGEST,),
        diff_ids=(DIGEST,),
        revision="c" * 40,
        plugin=PluginRecord(version="1", filename="p-1-py3-none-any.whl", sha256=SHA, archive_sha256=SHA),
        builder="oci",
        created="2026-01-01T00:00:00Z",
    )
    image = LockedImage(
        recipe=DIGEST,
        platform="linux/amd64",
        python="3.11",
        base=base,
        sources=(source,),
        packages=(a_file("zlib-ng"), a_file("attrs")),
        targets={"dev": (a_file("ruff"), a_file("mypy")), "ci": ()},
        unresolved=(Unresolved(name="x", version="1", source="flagos", reason="it did not answer"),),
        outputs=(output,),
    )
    return Lock(build_tools=(a_file("wheel"),), images={"cpu": image, "ascend": image})


def test_a_lock_survives_writing_and_reading() -> None:
    text = dump_lock(a_lock())
    again = parse_lock(text, Path("images.lock"))
    assert dump_lock(again) == text
    assert again.images["cpu"].base == a_lock().images["cpu"].base
    assert again.images["cpu"].outputs == a_lock().images["cpu"].outputs


def test_every_pin_takes_one_line_and_entries_are_sorted() -> None:
    lines = dump_lock(a_lock()).splitlines()
    pins = [line.strip() for line in lines if "filename: attrs" in line]
    assert len(pins) == 2
    assert all(SHA in line and "version: '1.0'" in line for line in pins)
    names = [line.split("name: ")[1].split(",")[0] for line in lines if "-py3-none-any.whl, sha256" in line]
    assert names[1:4] == ["kernels", "attrs", "zlib-ng"]
    assert [line.strip(": ") for line in lines if line in ("  ascend:", "  cpu:")] == ["ascend", "cpu"]


def test_lines_end_with_lf_and_the_file_with_a_newline(tmp_path: Path) -> None:
    write_lock(tmp_path / "images.lock", a_lock())
    content = (tmp_path / "images.lock").read_bytes()
    assert b"\r" not in content
    assert content.endswith(b"\n")
    assert b" \n" not in content


def test_the_lock_is_plain_yaml_with_the_promised_keys() -> None:
    data = yaml.safe_load(dump_lock(a_lock()))
    first = data["images"]["cpu"]["packages"][0]
    assert {"name", "version", "index", "filename", "sha256"} <= set(first)
    assert first["version"] == "1.0"


def test_nothing_shared_becomes_a_yaml_alias() -> None:
    assert "&id" not in dump_lock(a_lock())


def test_a_missing_file_is_an_empty_lock(tmp_path: Path) -> None:
    assert read_lock(tmp_path / "images.lock") == Lock()


def test_broken_yaml_names_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "images.lock"
    path.write_text("version: 1\nimages: {cpu: [}\n")
    with pytest.raises(LockStaleError, match=r"images\.lock:2"):
        read_lock(path)


def test_a_short_hash_is_refused_and_named(tmp_path: Path) -> None:
    path = tmp_path / "images.lock"
    path.write_text(dump_lock(a_lock()).replace(SHA, "abc", 1))
    with pytest.raises(LockStaleError, match=r"build_tools\.0\.sha256"):
        read_lock(path)


def test_a_lock_of_a_later_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "images.lock"
    path.write_text("version: 2\nimages: {}\n")
    with pytest.raises(LockStaleError, match="version"):
        read_lock(path)


def test_an_unchanged_lock_is_not_written_again(tmp_path: Path) -> None:
    path = tmp_path / "images.lock"
    write_lock(path, a_lock())
    before = path.stat().st_ino
    write_lock(path, a_lock())
    assert path.stat().st_ino == before


def test_a_change_that_fails_leaves_the_lock_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "images.lock"
    write_lock(path, a_lock())
    before = path.read_bytes()

    def fail(lock: Lock) -> Lock:
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        update_lock(path, fail)
    assert path.read_bytes() == before
    assert [item.name for item in tmp_path.iterdir()] == ["images.lock"]


def test_changes_at_the_same_time_are_all_kept(tmp_path: Path) -> None:
    path = tmp_path / "images.lock"
    image = a_lock().images["cpu"]

    def put(name: str) -> None:
        update_lock(path, lambda lock: lock.model_copy(update={"images": {**lock.images, name: image}}))

    threads = [threading.Thread(target=put, args=(f"image{number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(read_lock(path).images) == 8


def test_b71_the_text_of_a_lock_is_the_same_in_every_version() -> None:
    image = LockedImage(
        recipe=DIGEST,
        platform="linux/amd64",
        python="3.11",
        packages=(a_file("numpy", "1.10"),),
        unresolved=(Unresolved(name="x", version="1", source="flagos", reason="it could not be reached"),),
    )
    assert dump_lock(Lock(images={"cpu": image})) == FROZEN
    read = parse_lock(FROZEN, Path("images.lock")).images["cpu"]
    assert read == image.model_copy(update={"seal": read.seal})


FROZEN = f"""\
# Written by `flbuild lock`; editing it by hand is refused by `flbuild lock --check`.
version: 1
images:
  cpu:
    seal: sha256:ba7aa1a9df8bfd805b3f1aab47f25430e3031898658644f8e44a6b8d74b6aee3
    recipe: {DIGEST}
    platform: linux/amd64
    python: '3.11'
    packages:
    - {{name: numpy, version: '1.10', index: pypi, filename: numpy-1.10-py3-none-any.whl, sha256: {SHA}, \
size: 0, requires_python: '>=3.10'}}
    unresolved:
    - {{name: x, version: '1', source: flagos, reason: it could not be reached}}
"""


@pytest.mark.parametrize(
    "text",
    [
        "version: 1\nimages: {}\nversion: 1\n",
        "version: 1\nimages:\n  cpu: {}\n  cpu: {}\n",
        f"version: 1\nbuild_tools:\n- {{name: wheel, sha256: {SHA}, sha256: {SHA}}}\n",
    ],
)
def test_a_key_that_is_there_twice_is_refused(text: str) -> None:
    with pytest.raises(LockStaleError, match=r"images\.lock:[34]") as caught:
        parse_lock(text, Path("images.lock"))
    assert "there twice" in str(caught.value)


def test_a_lock_that_cannot_be_read_names_a_way_out_that_does_not_read_it() -> None:
    with pytest.raises(LockStaleError) as caught:
        parse_lock("<<<<<<< HEAD\nversion: 1\n", Path("images.lock"))
    assert caught.value.remedy == "git checkout images.lock, or move it out of the way and run flbuild lock"
