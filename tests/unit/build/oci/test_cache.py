from __future__ import annotations

import gzip
import hashlib
import os

import pytest

from flbuild.build.oci.cache import LayerCache
from flbuild.errors import HostError


@pytest.fixture
def cache(tmp_path):
    return LayerCache(tmp_path)


def write(data):
    return lambda stream: stream.write(data)


def test_a_layer_is_found_by_its_key_and_has_the_written_bytes(cache):
    assert cache.find("k") is None
    made = cache.make("k", write(b"layer" * 1000))
    assert cache.find("k") == made
    data = cache.path(made.digest).read_bytes()
    assert gzip.decompress(data) == b"layer" * 1000
    assert (made.digest, made.size) == (f"sha256:{hashlib.sha256(data).hexdigest()}", len(data))
    assert made.diff_id == f"sha256:{hashlib.sha256(b'layer' * 1000).hexdigest()}"


def test_two_keys_of_the_same_bytes_share_a_file(cache, tmp_path):
    assert cache.make("a", write(b"x")) == cache.make("b", write(b"x"))
    assert len(list((tmp_path / "blobs" / "sha256").iterdir())) == 1


def test_a_changed_file_is_never_used(cache):
    made = cache.make("k", write(b"x" * 1000))
    path = cache.path(made.digest)
    os.chmod(path, 0o644)
    with path.open("r+b") as stream:
        stream.seek(20)
        stream.write(b"!")
    assert path.stat().st_size == made.size
    assert cache.find("k") is None
    assert not path.exists()


def test_a_file_that_was_only_touched_is_read_again_once(cache, monkeypatch):
    made = cache.make("k", write(b"x"))
    cache.path(made.digest).touch()
    assert cache.find("k") == made
    monkeypatch.setattr("flbuild.build.oci.cache.sha256_file", lambda path: pytest.fail("read again"))
    assert cache.find("k") == made


@pytest.mark.parametrize("damage", ["gone", "shorter", "note"])
def test_a_damaged_entry_is_no_entry(cache, tmp_path, damage):
    made = cache.make("k", write(b"x" * 1000))
    path = cache.path(made.digest)
    if damage == "gone":
        path.unlink()
    elif damage == "shorter":
        path.chmod(0o644)
        path.write_bytes(path.read_bytes()[:-1])
    else:
        (tmp_path / "layers" / "k.json").write_text('{"digest":')
    assert cache.find("k") is None
    assert cache.make("k", write(b"x" * 1000)) == made


def test_a_writer_that_fails_leaves_nothing(cache, tmp_path):
    def fail(stream):
        stream.write(b"half")
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        cache.make("k", fail)
    assert cache.find("k") is None
    assert list((tmp_path / "blobs" / "sha256").iterdir()) == []


def test_a_full_disk_is_the_machines_fault(cache, monkeypatch):
    def full(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("flbuild.build.oci.cache.compress", full)
    with pytest.raises(HostError, match="could not be written") as caught:
        cache.make("k", write(b"x" * 10_000_000))
    assert "No space left" in caught.value.cause
    assert "FLBUILD_CACHE_DIR" in caught.value.remedy
