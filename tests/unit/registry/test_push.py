from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from flbuild.build.model import Blob, BuiltImage
from flbuild.errors import RemoteGoneError, RemoteMovedError, RemoteRefusedError
from flbuild.progress import Silent
from flbuild.registry import upload as upload_module
from flbuild.registry.client import RegistryClient
from flbuild.registry.push import push_image
from flbuild.registry.reference import Reference

from .fake_registry import OCI_MANIFEST, Answer, FakeRegistry, digest_of, serve

LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"


@pytest.fixture
def image(tmp_path: Path) -> BuiltImage:
    """Two layers, of which the first is the base's, and one that comes twice."""
    blobs = []
    for number, content in enumerate((b"base" * 500, b"plugin" * 100, b"base" * 500)):
        path = tmp_path / f"layer{number}"
        path.write_bytes(content)
        blobs.append(Blob(digest_of(content), len(content), LAYER, digest_of(content), path, number != 1))
    config = b'{"architecture":"amd64"}'
    layers = [{"digest": blob.digest, "size": blob.size, "mediaType": LAYER} for blob in blobs]
    manifest = json.dumps({"config": {"digest": digest_of(config)}, "layers": layers}).encode()
    return BuiltImage(
        manifest, digest_of(manifest), OCI_MANIFEST, config, digest_of(config), tuple(blobs), None
    )


def on_base(image: BuiltImage, base: Reference | None) -> BuiltImage:
    layers = tuple(replace(layer, path=None) if layer.from_base else layer for layer in image.layers)
    return replace(image, layers=layers, base_reference=str(base) if base else None)


def test_layers_come_first_and_the_manifest_last_by_digest_then_by_tag(
    client: RegistryClient, registry: FakeRegistry, image: BuiltImage
) -> None:
    report = push_image(client, image, registry.reference("team/image:v1"), Silent())
    puts = [path for method, path in registry.requests if method == "PUT"]
    assert len(puts) == 5
    assert image.config_digest.removeprefix("sha256:") in puts[2]
    assert puts[3:] == [f"/v2/team/image/manifests/{image.manifest_digest}", "/v2/team/image/manifests/v1"]
    assert registry.manifests["v1"] == image.manifest
    assert (report.uploaded, report.mounted, report.existing) == (2, 0, 0)
    assert report.digest == image.manifest_digest


def test_a_push_by_digest_writes_no_tag(
    client: RegistryClient, registry: FakeRegistry, image: BuiltImage
) -> None:
    push_image(client, image, registry.reference().at(image.manifest_digest), Silent())
    assert set(registry.manifests) == {image.manifest_digest}


def test_bytes_sent_are_exact(client: RegistryClient, registry: FakeRegistry, image: BuiltImage) -> None:
    report = push_image(client, image, registry.reference(), Silent())
    assert report.sent == 2000 + 600 + len(image.config) + 2 * len(image.manifest)


def test_what_is_there_is_not_sent(client: RegistryClient, registry: FakeRegistry, image: BuiltImage) -> None:
    registry.add_blob(b"base" * 500)
    report = push_image(client, image, registry.reference(), Silent())
    assert (report.uploaded, report.existing) == (1, 1)
    assert report.sent == 600 + len(image.config) + 2 * len(image.manifest)


def test_layers_of_the_base_are_mounted_from_its_repository(
    client: RegistryClient, registry: FakeRegistry, image: BuiltImage
) -> None:
    digest = registry.add_blob(b"base" * 500)
    registry.on("HEAD", digest, Answer.error(404, "BLOB_UNKNOWN"))
    base = registry.reference("vendor/base:1")
    report = push_image(client, on_base(image, base), registry.reference(), Silent())
    assert (report.uploaded, report.mounted) == (1, 1)
    assert registry.asked("POST", f"mount={digest.replace(':', '%3A')}&from=vendor%2Fbase") == 1
    assert registry.asked("GET", "/blobs/") == 0


@pytest.mark.parametrize("status", [401, 403, 404, 405])
def test_a_refused_mount_becomes_a_copy(
    client: RegistryClient, registry: FakeRegistry, image: BuiltImage, status: int
) -> None:
    digest = registry.add_blob(b"base" * 500)
    registry.on("HEAD", digest, Answer.error(404, "BLOB_UNKNOWN"))
    registry.on("POST", "mount=", Answer.error(status, "DENIED"))
    base = registry.reference("vendor/base:1")
    report = push_image(client, on_base(image, base), registry.reference(), Silent())
    assert (report.uploaded, report.mounted) == (2, 0)
    assert registry.asked("GET", f"/v2/vendor/base/blobs/{digest}") == 1


def test_layers_of_a_base_elsewhere_are_copied_once(
    client: RegistryClient, registry: FakeRegistry, image: BuiltImage
) -> None:
    with serve() as vendor:
        vendor.add_blob(b"base" * 500)
        built = on_base(image, vendor.reference("vendor/base:1"))
        report = push_image(client, built, registry.reference(), Silent())
        assert vendor.asked("GET", "/blobs/") == 1
    assert report.uploaded == 2
    assert registry.blobs[digest_of(b"base" * 500)] == b"base" * 500


def test_a_damaged_layer_of_a_base_elsewhere_does_not_arrive(
    client: RegistryClient, registry: FakeRegistry, image: BuiltImage
) -> None:
    with serve() as vendor:
        vendor.blobs[digest_of(b"base" * 500)] = b"evil" * 500
        built = on_base(image, vendor.reference("vendor/base:1"))
        with pytest.raises(RemoteMovedError, match="other bytes"):
            push_image(client, built, registry.reference(), Silent())
    assert registry.manifests == {}


def test_a_layer_that_fails_leaves_no_manifest(
    client: RegistryClient, registry: FakeRegistry, image: BuiltImage
) -> None:
    registry.on("PUT", "/uploads/", Answer.error(403, "DENIED", "quota"))
    with pytest.raises(RemoteRefusedError, match="quota"):
        push_image(client, image, registry.reference(), Silent())
    assert registry.manifests == {}
    assert registry.asked("PUT", "/manifests/") == 0


def test_a_base_whose_layers_are_gone_is_gone(
    client: RegistryClient, registry: FakeRegistry, image: BuiltImage
) -> None:
    with serve() as vendor:
        built = on_base(image, vendor.reference("vendor/base:1"))
        with pytest.raises(RemoteGoneError, match="vendor/base"):
            push_image(client, built, registry.reference(), Silent())


def test_b37_a_registry_that_changes_the_manifest_is_found_out(
    client: RegistryClient, registry: FakeRegistry, image: BuiltImage
) -> None:
    other = f"sha256:{hashlib.sha256(b'converted').hexdigest()}"
    registry.on("PUT", "/manifests/sha256", Answer(201, headers={"Docker-Content-Digest": other}))
    with pytest.raises(RemoteMovedError, match="another digest"):
        push_image(client, image, registry.reference(), Silent())


def test_a_mirror_that_is_the_target_gives_its_layers_by_mount(
    make_client: Callable[..., RegistryClient], registry: FakeRegistry, image: BuiltImage
) -> None:
    digest = registry.add_blob(b"base" * 500)
    registry.on("HEAD", digest, Answer.error(404, "BLOB_UNKNOWN"))
    client = make_client(FLBUILD_REGISTRY_QUAY_EXAMPLE_MIRROR=f"{registry.host}/cache")
    built = on_base(image, Reference.parse("quay.example/vendor/base:1"))
    assert push_image(client, built, registry.reference(), Silent()).mounted == 1
    assert registry.asked("POST", "from=cache%2Fvendor%2Fbase") == 1


def test_a_layer_that_was_published_before_is_mounted_from_its_latest_place_in_the_same_registry(
    client: RegistryClient, registry: FakeRegistry, image: BuiltImage
) -> None:
    digest = registry.add_blob(b"plugin" * 100)
    registry.on("HEAD", digest, Answer.error(404, "BLOB_UNKNOWN"))
    places = [registry.reference("team/old:1"), registry.reference("team/new:1")]
    places += [registry.reference("team/image:0"), Reference.parse("registry.example/team/other:1")]
    report = push_image(client, image, registry.reference(), Silent(), {digest: places})
    assert (report.uploaded, report.mounted) == (1, 1)
    assert registry.asked("POST", f"mount={digest.replace(':', '%3A')}&from=team%2Fnew") == 1


def test_a_layer_that_has_left_the_place_it_was_published_to_is_uploaded(
    client: RegistryClient, registry: FakeRegistry, image: BuiltImage
) -> None:
    digest = image.layers[1].digest
    report = push_image(
        client, image, registry.reference(), Silent(), {digest: [registry.reference("team/old:1")]}
    )
    assert (report.uploaded, report.mounted) == (2, 0)
    assert digest in registry.blobs


def test_an_error_of_one_layer_ends_the_others(
    client: RegistryClient, registry: FakeRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upload_module, "CHUNK", 1000)
    contents = (bytes(range(250)) * 400, b"x" * 900)
    blobs = []
    for content in contents:
        path = tmp_path / digest_of(content)[7:]
        path.write_bytes(content)
        blobs.append(Blob(digest_of(content), len(content), LAYER, digest_of(content), path, False))
    image = BuiltImage(b"{}", digest_of(b"{}"), OCI_MANIFEST, b"c", digest_of(b"c"), tuple(blobs), None)
    registry.on("PUT", "/uploads/", Answer.error(403, "DENIED", "quota"))
    with pytest.raises(RemoteRefusedError, match="quota"):
        push_image(client, image, registry.reference(), Silent())
    assert registry.asked("PATCH", "uploads") < 100
    assert registry.blobs == {}
