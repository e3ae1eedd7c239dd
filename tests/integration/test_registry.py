"""The registry client against a real registry, and its images in the hands of other tools."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from registry_server import PASSWORD, USER, RegistryServer, serve

from flbuild.base.image import ImageBases
from flbuild.build.model import BuiltImage
from flbuild.errors import RemoteGoneError, RemoteMovedError, RemoteRefusedError, UnreachableError
from flbuild.progress import Silent
from flbuild.recipe.model import ImageBase
from flbuild.registry.client import RegistryClient
from flbuild.registry.push import push_image
from flbuild.registry.reference import Reference
from flbuild.settings import Settings, load_settings

MEGA = 1 << 20


def on(server: RegistryServer, name: str) -> Reference:
    return Reference.parse(f"{server.host}/{name}")


def new_client(environ: dict[str, str]) -> RegistryClient:
    return RegistryClient(load_settings(None, environ), Silent(), environ)


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_pushed_image_is_pulled_byte_for_byte_by_tag_and_by_digest(
    client: RegistryClient, registry: RegistryServer, make_image: Callable[..., BuiltImage]
) -> None:
    image, target = make_image(note="pull"), on(registry, "team/pull:1")
    report = push_image(client, image, target, Silent())
    assert report.digest == image.manifest_digest
    for reference in (target, target.at(report.digest)):
        assert client.manifest(reference).raw == image.manifest
    assert client.blob(target, image.config_digest) == image.config
    for layer in image.layers:
        assert b"".join(client.stream_blob(target, layer.digest)) == layer.path.read_bytes()
    assert client.tags(target) == ("1",)


def test_a_second_push_sends_the_manifest_only(
    client: RegistryClient, registry: RegistryServer, make_image: Callable[..., BuiltImage]
) -> None:
    image = make_image(padding=MEGA, note="twice")
    first = push_image(client, image, on(registry, "twice:1"), Silent())
    second = push_image(client, image, on(registry, "twice:2"), Silent())
    assert (first.uploaded, first.existing) == (2, 0)
    sizes = sum(layer.size for layer in image.layers) + len(image.config) + 2 * len(image.manifest)
    assert first.sent == sizes
    assert (second.uploaded, second.existing) == (0, 2)
    assert second.sent == 2 * len(image.manifest)


def test_a_changed_layer_is_all_that_a_push_sends(
    client: RegistryClient, registry: RegistryServer, make_image: Callable[..., BuiltImage]
) -> None:
    push_image(client, make_image(padding=MEGA, note="old"), on(registry, "changed:1"), Silent())
    image = make_image(padding=MEGA, note="new")
    report = push_image(client, image, on(registry, "changed:2"), Silent())
    assert report.sent < 1.05 * image.layers[1].size


def test_layers_of_the_base_are_mounted_inside_one_registry(
    client: RegistryClient, registry: RegistryServer, make_image: Callable[..., BuiltImage]
) -> None:
    image, base = make_image(padding=MEGA, note="mount"), on(registry, "base/mount:1")
    push_image(client, image, base, Silent())
    report = push_image(client, on_base(image, base), on(registry, "product/mounted:1"), Silent())
    assert report.mounted == 2
    assert report.sent == len(image.config) + 2 * len(image.manifest)


def test_layers_of_a_base_in_another_registry_are_streamed_and_not_stored(
    client: RegistryClient,
    registry: RegistryServer,
    fresh_registry: RegistryServer,
    make_image: Callable[..., BuiltImage],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    image, base = make_image(padding=40 * MEGA, note="stream"), on(registry, "base/stream:1")
    push_image(client, image, base, Silent())
    scratch = tmp_path / "scratch"
    scratch.mkdir(mode=0o500)
    monkeypatch.setenv("TMPDIR", str(scratch))
    received = client.received
    target = on(fresh_registry, "streamed:1")
    report = push_image(client, on_base(image, base), target, Silent())
    size = sum(layer.size for layer in image.layers)
    assert report.uploaded == 2
    assert size <= client.received - received < size + 10_000
    assert client.manifest(target).digest == image.manifest_digest


def test_a_large_layer_goes_on_after_the_registry_crashed(
    client: RegistryClient, fresh_registry: RegistryServer, make_image: Callable[..., BuiltImage]
) -> None:
    image, target = make_image(padding=70 * MEGA, note="crash"), on(fresh_registry, "crash:1")
    layer = image.layers[1]
    arrived: list[int] = []

    def crash_once(amount: int) -> None:
        arrived.append(amount)
        if len(arrived) == 2:
            fresh_registry.stop()
            fresh_registry.start()

    before = client.sent
    client.upload(target, layer.digest, layer.size, lambda: layer.path.open("rb"), sent=crash_once)
    assert sum(arrived) == layer.size
    assert client.sent - before < layer.size + 32 * MEGA
    assert client.has_blob(target, layer.digest)
    assert fresh_registry.blob_path(layer.digest).read_bytes() == layer.path.read_bytes()


def test_a_push_killed_at_any_moment_is_completed_by_the_next(
    client: RegistryClient,
    fresh_registry: RegistryServer,
    make_image: Callable[..., BuiltImage],
    environ: dict[str, str],
) -> None:
    image = make_image(padding=48 * MEGA, note="kill")
    moments = random.Random(7)
    for number in range(4):
        target = on(fresh_registry, f"killed{number}:1")
        # A client of its own: connections are not shared over a fork.
        process = multiprocessing.get_context("fork").Process(
            target=lambda target=target: push_image(new_client(environ), image, target, Silent())
        )
        process.start()
        time.sleep(moments.uniform(0.02, 0.5))
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        # Whatever arrived, a manifest is there only if all it names is there.
        if client.tags(target):
            run("skopeo", "inspect", "--tls-verify=false", f"docker://{target}")
        push_image(client, image, target, Silent())
        assert client.manifest(target).raw == image.manifest
        assert all(client.has_blob(target, layer.digest) for layer in image.layers)


def test_gone_moved_and_unreachable_are_told_apart(
    client: RegistryClient, registry: RegistryServer, make_image: Callable[..., BuiltImage]
) -> None:
    target = on(registry, "faults:1")
    push_image(client, make_image(note="faults"), target, Silent())
    with pytest.raises(RemoteGoneError, match="MANIFEST_UNKNOWN"):
        client.manifest(replace(target, tag="2"))
    with pytest.raises(RemoteGoneError, match="MANIFEST_UNKNOWN"):
        client.manifest(target.at(f"sha256:{'0' * 64}"))
    with pytest.raises(RemoteGoneError, match="no such manifest"):
        client.manifest(on(registry, "nothing/here:1"))
    with pytest.raises(UnreachableError):
        client.manifest(Reference.parse("127.0.0.1:9/faults:1"))


def test_a_damaged_layer_in_the_registry_is_noticed(
    client: RegistryClient,
    fresh_registry: RegistryServer,
    make_image: Callable[..., BuiltImage],
    tmp_path: Path,
) -> None:
    image, target = make_image(padding=3 * MEGA, note="damaged"), on(fresh_registry, "damaged:1")
    push_image(client, image, target, Silent())
    stored = fresh_registry.blob_path(image.layers[1].digest)
    content = bytearray(stored.read_bytes())
    content[1000] ^= 1
    stored.write_bytes(content)
    with pytest.raises(RemoteMovedError, match="other bytes"):
        client.save_blob(target, image.layers[1].digest, tmp_path / "layer")
    assert not (tmp_path / "layer").exists()


def test_a_private_registry_is_refused_without_and_opened_with_a_credential(
    private_registry: RegistryServer, make_image: Callable[..., BuiltImage], environ: dict[str, str]
) -> None:
    image, target = make_image(note="private"), on(private_registry, "private:1")
    with pytest.raises(RemoteRefusedError, match="docker login"):
        push_image(new_client(environ), image, target, Silent())
    name = f"FLBUILD_REGISTRY_127_0_0_1_{private_registry.port}"
    known = {**environ, f"{name}_USERNAME": USER, f"{name}_PASSWORD": PASSWORD}
    client = new_client(known)
    push_image(client, image, target, Silent())
    assert client.manifest(target).raw == image.manifest
    wrong = {**known, f"{name}_PASSWORD": "guessed"}
    with pytest.raises(RemoteRefusedError) as refused:
        new_client(wrong).manifest(target)
    assert "guessed" not in str(refused.value)


def test_one_setting_redirects_a_reference_to_a_mirror(
    client: RegistryClient,
    registry: RegistryServer,
    make_image: Callable[..., BuiltImage],
    environ: dict[str, str],
) -> None:
    image = make_image(note="mirror")
    push_image(client, image, on(registry, "cache/vendor/base:1"), Silent())
    redirected = {**environ, "FLBUILD_REGISTRY_QUAY_EXAMPLE_MIRROR": f"{registry.host}/cache"}
    mirrored = new_client(redirected)
    base = Reference.parse("quay.example/vendor/base:1")
    assert mirrored.manifest(base).raw == image.manifest
    assert str(mirrored.manifest(base).reference) == "quay.example/vendor/base:1"
    # The mirror holds the layers where the image goes, so they are mounted.
    report = push_image(mirrored, on_base(image, base), on(registry, "product/mirrored:1"), Silent())
    assert report.mounted == 2


def test_skopeo_inspects_and_copies_what_was_pushed(
    client: RegistryClient, registry: RegistryServer, make_image: Callable[..., BuiltImage], tmp_path: Path
) -> None:
    image, target = make_image(note="skopeo"), on(registry, "skopeo:1")
    push_image(client, image, target, Silent())
    seen = json.loads(run("skopeo", "inspect", "--tls-verify=false", f"docker://{target}"))
    assert seen["Digest"] == image.manifest_digest
    assert seen["Labels"] == {"note": "skopeo"}
    source = f"docker://{target.at(image.manifest_digest)}"
    run("skopeo", "copy", "--src-tls-verify=false", "--preserve-digests", source, f"oci:{tmp_path}/copy:1")
    index = json.loads((tmp_path / "copy/index.json").read_text())
    assert index["manifests"][0]["digest"] == image.manifest_digest


def test_umoci_unpacks_what_was_pushed(
    client: RegistryClient, registry: RegistryServer, make_image: Callable[..., BuiltImage], tmp_path: Path
) -> None:
    image, target = make_image(padding=5 * MEGA, note="umoci"), on(registry, "umoci:1")
    push_image(client, image, target, Silent())
    layout = f"{tmp_path}/layout"
    run("skopeo", "copy", "--src-tls-verify=false", f"docker://{target}", f"oci:{layout}:1")
    run("umoci", "unpack", "--rootless", "--image", f"{layout}:1", f"{tmp_path}/bundle")
    assert (tmp_path / "bundle/rootfs/padding").stat().st_size == 5 * MEGA


def test_an_index_keeps_its_kind_and_gives_the_image_of_the_platform(
    client: RegistryClient, registry: RegistryServer, make_image: Callable[..., BuiltImage]
) -> None:
    image, target = make_image(note="index"), on(registry, "index:1")
    push_image(client, image, target.at(image.manifest_digest), Silent())
    media_type = "application/vnd.oci.image.index.v1+json"
    child = {
        "mediaType": image.manifest_media_type,
        "digest": image.manifest_digest,
        "size": len(image.manifest),
        "platform": {"os": "linux", "architecture": "amd64"},
    }
    raw = json.dumps({"schemaVersion": 2, "mediaType": media_type, "manifests": [child]}).encode()
    digest = client.put_manifest(target, raw, media_type)
    top, found = client.image_manifest(target, "linux/amd64")
    assert (top.kind, top.digest, found.kind, found.raw) == ("index", digest, "image", image.manifest)
    with pytest.raises(RemoteGoneError, match="linux/arm64"):
        client.image_manifest(target, "linux/arm64")


def test_a_restart_of_the_registry_between_two_requests_is_no_error(
    environ: dict[str, str], make_image: Callable[..., BuiltImage], tmp_path: Path
) -> None:
    with serve(tmp_path / "late") as server:
        target = on(server, "late:1")
        image = make_image(note="late")
        client = new_client(environ)
        push_image(client, image, target, Silent())
        client.manifest(target)
        # The kept connection is dead now, which the next request must survive.
        server.stop()
        server.start()
        assert client.put_manifest(target, image.manifest, image.manifest_media_type) == image.manifest_digest


def test_a_base_in_a_registry_is_read_once_and_then_known_by_its_manifest(
    client: RegistryClient,
    registry: RegistryServer,
    make_image: Callable[..., BuiltImage],
    settings: Settings,
) -> None:
    image, target = make_image(padding=2 * MEGA, note="base"), on(registry, "vendor/locked:v1")
    push_image(client, image, target, Silent())
    bases = ImageBases(settings, Silent(), client)
    locked = bases.lock(ImageBase(image=str(target)), "linux/amd64")
    assert (locked.digest, locked.config) == (image.manifest_digest, image.config_digest)
    assert [layer.diff_id for layer in locked.layers] == [layer.diff_id for layer in image.layers]
    received = client.received
    assert bases.lock(ImageBase(image=str(target)), "linux/amd64") == locked
    assert bases.config(locked) == image.config
    assert client.received - received < 10_000


def on_base(image: BuiltImage, base: Reference) -> BuiltImage:
    """The same image as if its layers were only in the repository of `base`."""
    layers = tuple(replace(layer, path=None, from_base=True) for layer in image.layers)
    return replace(image, layers=layers, base_reference=str(base))
