from __future__ import annotations

import hashlib
import json
import os

import pytest

from flbuild.build.oci.assemble import OciBuilder
from flbuild.build.oci.layout import read_layout, write_layout
from flbuild.errors import HostError, UsageError, VerificationError
from flbuild.plan.model import PlannedLayer
from flbuild.progress import Silent


class Bases:
    def debian_layer(self, base):
        raise AssertionError("no Debian base here")

    def image_config(self, base):
        return b'{"architecture":"amd64","os":"linux"}'


@pytest.fixture
def image(wheels, tmp_path):
    wheel = wheels.add("one", {"one.py": b"1"})
    plan = wheels.plan(PlannedLayer("one", "wheels", "", (wheel,)))
    return OciBuilder(tmp_path / "cache", Bases()).build(plan, wheels.inputs, Silent())


def fetch(blob, path):
    path.write_bytes(b"x" * blob.size)


def blobs(folder):
    return {path.name: path.read_bytes() for path in (folder / "blobs" / "sha256").iterdir()}


def test_a_layout_is_complete_and_reads_back(image, tmp_path):
    write_layout(image, tmp_path / "out", "v1", fetch)
    index = json.loads((tmp_path / "out" / "index.json").read_bytes())
    (manifest,) = index["manifests"]
    assert manifest["annotations"] == {"org.opencontainers.image.ref.name": "v1"}
    assert manifest["platform"] == {"architecture": "amd64", "os": "linux"}
    assert json.loads((tmp_path / "out" / "oci-layout").read_bytes()) == {"imageLayoutVersion": "1.0.0"}
    back = read_layout(tmp_path / "out")
    assert (back.manifest, back.config) == (image.manifest, image.config)
    assert [layer.digest for layer in back.layers] == [layer.digest for layer in image.layers]
    assert [layer.diff_id for layer in back.layers] == [layer.diff_id for layer in image.layers]


def test_layers_are_shared_with_the_cache_where_that_is_possible(image, tmp_path, monkeypatch):
    own = image.layers[-1]
    write_layout(image, tmp_path / "out", "v1", fetch)
    assert (tmp_path / "out" / "blobs" / "sha256" / own.digest[7:]).samefile(own.path)

    def refuse(self, target):
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr("pathlib.Path.hardlink_to", refuse)
    write_layout(image, tmp_path / "other", "v1", fetch)
    assert blobs(tmp_path / "other") == blobs(tmp_path / "out")


def test_a_layout_is_replaced_as_a_whole(image, tmp_path):
    write_layout(image, tmp_path / "out", "v1", fetch)
    (tmp_path / "out" / "blobs" / "sha256" / "stale").write_text("left")
    write_layout(image, tmp_path / "out", "v2", fetch)
    assert "stale" not in blobs(tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir() if "out" in path.name) == ["out"]


def test_other_peoples_files_are_not_replaced(image, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("x")
    with pytest.raises(UsageError, match="no OCI layout"):
        write_layout(image, tmp_path / "out", "v1", fetch)
    assert (tmp_path / "out" / "thesis.txt").exists()


def test_an_empty_folder_and_a_relative_one_will_do(image, tmp_path, monkeypatch):
    (tmp_path / "out").mkdir()
    write_layout(image, tmp_path / "out", "v1", fetch)
    monkeypatch.chdir(tmp_path)
    write_layout(image, type(tmp_path)("here"), "v1", fetch)
    assert (tmp_path / "here" / "index.json").exists()


def test_a_file_is_no_place_for_a_layout(image, tmp_path):
    (tmp_path / "out").write_text("x")
    with pytest.raises(UsageError, match="is a file"):
        write_layout(image, tmp_path / "out", "v1", fetch)


def test_a_fetch_that_fails_leaves_the_old_layout(image, tmp_path):
    write_layout(image, tmp_path / "out", "v1", fetch)
    before = blobs(tmp_path / "out")

    def fail(blob, path):
        path.write_bytes(b"half")
        raise OSError("connection lost")

    with pytest.raises(HostError, match="could not be written"):
        write_layout(image, tmp_path / "out", "v2", fail)
    assert blobs(tmp_path / "out") == before
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".out")] == []


def test_a_changed_manifest_or_config_is_found(image, tmp_path):
    write_layout(image, tmp_path / "out", "v1", fetch)
    for digest in (image.manifest_digest, image.config_digest):
        path = tmp_path / "out" / "blobs" / "sha256" / digest[7:]
        whole = path.read_bytes()
        path.write_bytes(whole + b" ")
        with pytest.raises(VerificationError, match="is not what its name says"):
            read_layout(tmp_path / "out")
        path.write_bytes(whole)


def test_a_missing_layer_is_found(image, tmp_path):
    write_layout(image, tmp_path / "out", "v1", fetch)
    os.unlink(tmp_path / "out" / "blobs" / "sha256" / image.layers[-1].digest[7:])
    with pytest.raises(VerificationError, match="is missing"):
        read_layout(tmp_path / "out")


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"manifests": []}', '{"manifests": [{}, {}]}', '{"manifests": [{}]}']
)
def test_a_broken_index_is_no_layout(tmp_path, content):
    (tmp_path / "index.json").write_text(content)
    with pytest.raises(UsageError, match=r"index\.json"):
        read_layout(tmp_path)


@pytest.mark.parametrize("manifest", [b"no json", b"[]", b'{"config": {"digest": "sha256:../../../secret"}}'])
def test_a_manifest_that_is_none_is_refused(tmp_path, manifest):
    digest = hashlib.sha256(manifest).hexdigest()
    (tmp_path / "blobs" / "sha256").mkdir(parents=True)
    (tmp_path / "blobs" / "sha256" / digest).write_bytes(manifest)
    descriptor = {"digest": f"sha256:{digest}", "mediaType": "x"}
    (tmp_path / "index.json").write_text(json.dumps({"manifests": [descriptor]}))
    with pytest.raises(VerificationError, match="is no manifest of one image"):
        read_layout(tmp_path)


def test_a_digest_is_never_a_path(tmp_path):
    descriptor = {"digest": "sha256:../../../etc/passwd", "mediaType": "x"}
    (tmp_path / "index.json").write_text(json.dumps({"manifests": [descriptor]}))
    with pytest.raises(UsageError, match="does not name exactly one image"):
        read_layout(tmp_path)


def test_a_folder_without_an_index_is_no_layout(tmp_path):
    with pytest.raises(UsageError, match="is no OCI layout"):
        read_layout(tmp_path)
