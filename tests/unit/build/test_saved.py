from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile

import pytest

from flbuild.build.model import Blob
from flbuild.build.oci.cache import LayerCache
from flbuild.build.saved import read_saved
from flbuild.errors import BuildError


def digest(data):
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def layer(name, content=b"x"):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        member = tarfile.TarInfo(name)
        member.size = len(content)
        tar.addfile(member, io.BytesIO(content))
    return stream.getvalue()


BASE, OWN = layer("base"), layer("own", b"y" * 5_000_000)


@pytest.fixture
def plan(based_plan):
    return based_plan(digest(BASE), digest(b"compressed"))


@pytest.fixture
def saved():
    """`saved(layer, ...)`: an archive of an image with these layers, as engines write it."""

    def make(*layers, names="{}/layer.tar", left_out=()):
        config = {
            "architecture": "arm64",
            "os": "linux",
            "created": "2026-12-01T10:00:00Z",
            "container": "f" * 64,
            "docker_version": "20.10",
            "config": {"Env": ["A=1"]},
            "rootfs": {"type": "layers", "diff_ids": [digest(item) for item in layers]},
        }
        raw = json.dumps(config).encode()
        members = {names.format(number): item for number, item in enumerate(layers) if item not in left_out}
        members["VERSION"] = b"1.0"
        members["c.json"] = raw
        members["manifest.json"] = json.dumps([{"Config": "c.json", "Layers": list(members)}]).encode()
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w") as tar:
            for name, data in members.items():
                member = tarfile.TarInfo(name)
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
        stream.seek(0)
        return stream

    return make


def test_B77_layers_of_the_base_stay_the_registrys_and_others_are_compressed_here(plan, saved, tmp_path):
    cache = LayerCache(tmp_path)
    image = read_saved(saved(BASE, OWN), plan, cache)
    base, own = image.layers
    media_type = "application/vnd.oci.image.layer.v1.tar+gzip"
    assert base == Blob(digest(b"compressed"), 7, media_type, digest(BASE), None, True)
    assert (own.diff_id, gzip.decompress(own.path.read_bytes())) == (digest(OWN), OWN)
    assert digest(own.path.read_bytes()) == own.digest
    assert image.base_reference == "quay.io/team/base:v1"
    assert digest(image.manifest) == image.manifest_digest
    assert json.loads(image.manifest)["config"]["digest"] == digest(image.config)


def test_the_config_says_nothing_of_the_moment_or_of_containers(plan, saved, tmp_path):
    config = json.loads(read_saved(saved(BASE, OWN), plan, LayerCache(tmp_path)).config)
    assert config["created"] == "2026-01-01T00:00:00Z"
    assert "container" not in config
    assert "docker_version" not in config
    assert config["config"] == {"Env": ["A=1"]}


def test_names_and_compression_of_the_archive_do_not_matter(plan, saved, tmp_path):
    first = read_saved(saved(BASE, OWN), plan, LayerCache(tmp_path / "a"))
    other = read_saved(saved(BASE, OWN, names="blobs/sha256/{}"), plan, LayerCache(tmp_path / "b"))
    assert first.manifest == other.manifest


def test_an_image_on_another_base_is_refused(plan, saved, tmp_path):
    with pytest.raises(BuildError, match="was not built on the locked base"):
        read_saved(saved(OWN), plan, LayerCache(tmp_path))


def test_an_archive_without_one_of_its_layers_is_refused(plan, saved, tmp_path):
    with pytest.raises(BuildError, match="lacks its layer"):
        read_saved(saved(BASE, OWN, left_out=(OWN,)), plan, LayerCache(tmp_path))


def test_what_is_no_archive_is_refused(plan, tmp_path):
    with pytest.raises(BuildError, match="cannot be read"):
        read_saved(io.BytesIO(b"nonsense" * 1000), plan, LayerCache(tmp_path))
