from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from flbuild.errors import HostError, RemoteGoneError, RemoteMovedError, RemoteRefusedError, UnreachableError
from flbuild.progress import Silent
from flbuild.registry import client as client_module
from flbuild.registry.client import RegistryClient
from flbuild.registry.reference import Reference
from flbuild.settings import Settings

from .fake_registry import Answer, FakeRegistry, digest_of

INDEX = "application/vnd.oci.image.index.v1+json"
LIST = "application/vnd.docker.distribution.manifest.list.v2+json"


def test_a_manifest_comes_as_raw_bytes_with_their_own_digest(
    client: RegistryClient, registry: FakeRegistry
) -> None:
    raw = b'{ "layers": [ ] }\n'
    digest = registry.add_manifest(raw, "1")
    found = client.manifest(registry.reference())
    assert (found.raw, found.digest, found.kind) == (raw, digest, "image")


def test_every_kind_of_manifest_is_accepted_by_name(client: RegistryClient, registry: FakeRegistry) -> None:
    registry.add_manifest({"layers": []}, "1")
    client.manifest(registry.reference())
    accepted = registry.headers[0]["Accept"].split(", ")
    assert len(accepted) == 4
    assert LIST in accepted
    assert INDEX in accepted


def test_b43_an_index_stays_an_index(client: RegistryClient, registry: FakeRegistry) -> None:
    arm = registry.add_manifest({"layers": ["arm"]})
    amd = registry.add_manifest({"layers": ["amd"]})
    children = [
        {"digest": digest, "platform": {"os": "linux", "architecture": architecture}}
        for digest, architecture in ((arm, "arm64"), (amd, "amd64"))
    ]
    digest = registry.add_manifest({"manifests": children}, "1", media_type=INDEX)
    top, image = client.image_manifest(registry.reference(), "linux/amd64")
    assert (top.digest, top.kind) == (digest, "index")
    assert (image.digest, image.kind) == (amd, "image")
    assert str(image.reference).endswith(f"@{amd}")


def test_an_index_inside_an_index_is_followed_and_a_circle_is_not(
    client: RegistryClient, registry: FakeRegistry
) -> None:
    platform = {"os": "linux", "architecture": "amd64"}
    digest = image = registry.add_manifest({"layers": []})
    for _ in range(2):
        digest = registry.add_manifest(
            {"manifests": [{"digest": digest, "platform": platform}]}, "1", media_type=INDEX
        )
    assert client.image_manifest(registry.reference(), "linux/amd64")[1].digest == image
    for _ in range(3):
        digest = registry.add_manifest(
            {"manifests": [{"digest": digest, "platform": platform}]}, "1", media_type=INDEX
        )
    with pytest.raises(RemoteGoneError, match="indexes inside of indexes"):
        client.image_manifest(registry.reference(), "linux/amd64")


def test_b44_other_bytes_than_the_digest_asked_for_are_refused(
    client: RegistryClient, registry: FakeRegistry
) -> None:
    wanted = digest_of(b"what was locked")
    registry.manifests[wanted] = b'{"layers": []}'
    registry.types[b'{"layers": []}'] = INDEX
    with pytest.raises(RemoteMovedError, match=f"asked for: {wanted}\n  bytes: sha256:"):
        client.manifest(registry.reference().at(wanted))


def test_a_stated_digest_that_is_not_the_bytes_is_refused(
    client: RegistryClient, registry: FakeRegistry
) -> None:
    other = digest_of(b"other")
    registry.on("GET", "/manifests/1", Answer(200, b"{}", {"Docker-Content-Digest": other}))
    with pytest.raises(RemoteMovedError, match=f"stated: {other}"):
        client.manifest(registry.reference())


def test_b31_a_collected_digest_is_gone_and_the_way_out_is_named(
    client: RegistryClient, registry: FakeRegistry
) -> None:
    with pytest.raises(RemoteGoneError) as gone:
        client.manifest(registry.reference().at(digest_of(b"old")))
    text = str(gone.value)
    assert "MANIFEST_UNKNOWN" in text
    assert f"FLBUILD_REGISTRY_127_0_0_1_{registry.port}_MIRROR" in text


def test_a_missing_repository_is_told_from_a_missing_image(
    client: RegistryClient, registry: FakeRegistry
) -> None:
    registry.on("GET", "/manifests/", Answer.error(404, "NAME_UNKNOWN"))
    with pytest.raises(RemoteGoneError, match="no such repository"):
        client.manifest(registry.reference())


def test_a_server_error_is_asked_again_and_then_unreachable(
    client: RegistryClient, registry: FakeRegistry
) -> None:
    registry.add_manifest({"layers": []}, "1")
    registry.on("GET", "/manifests/1", *[Answer(503)] * 3)
    client.manifest(registry.reference())
    assert registry.asked("GET", "/manifests/1") == 4
    registry.on("GET", "/manifests/1", *[Answer.error(500, "UNKNOWN", "disk")] * 9)
    with pytest.raises(UnreachableError, match="status 500, UNKNOWN: disk"):
        client.manifest(registry.reference())


def test_a_rate_limit_is_told_with_its_time_and_not_slept_through(
    client: RegistryClient, registry: FakeRegistry
) -> None:
    registry.on("GET", "/manifests/1", *[Answer.error(429, "TOOMANYREQUESTS", Retry_After="21600")] * 9)
    with pytest.raises(RemoteRefusedError, match="retry in 21600 s"):
        client.manifest(registry.reference())


@pytest.mark.parametrize(
    ("status", "said"), [(403, "DENIED"), (405, "only reads"), (413, "client_max_body_size"), (400, "log")]
)
def test_b32_a_refusal_is_no_outage(
    client: RegistryClient, registry: FakeRegistry, status: int, said: str
) -> None:
    registry.on("PUT", "/manifests/1", Answer.error(status, "DENIED"))
    with pytest.raises(RemoteRefusedError, match=said):
        client.put_manifest(registry.reference(), b"{}", INDEX)


def test_b32_a_host_that_does_not_listen_is_unreachable(client: RegistryClient) -> None:
    with pytest.raises(UnreachableError, match=r"registry 127.0.0.1:9 cannot be reached\n  cause: .*refused"):
        client.manifest(Reference.parse("127.0.0.1:9/a/b:1"))


def test_https_spoken_to_a_plain_registry_names_the_setting(
    make_client: Callable[..., RegistryClient], registry: FakeRegistry, tmp_path: Path
) -> None:
    config = tmp_path / "flbuild.toml"
    config.write_text(f'[registry."{registry.host}"]\nplain-http = false\n')
    with pytest.raises(UnreachableError, match="plain-http = true"):
        make_client(FLBUILD_CONFIG=str(config)).manifest(registry.reference())


def test_a_manifest_without_end_is_not_read_to_its_end(
    client: RegistryClient, registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "LARGEST_MANIFEST", 1000)
    registry.add_manifest({"layers": ["x" * 1000]}, "1")
    with pytest.raises(RemoteMovedError, match="larger than 1000 bytes"):
        client.manifest(registry.reference())


def test_a_config_without_end_is_not_read_to_its_end(
    client: RegistryClient, registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "LARGEST_BLOB", 1000)
    digest = registry.add_blob(b"x" * 1001)
    with pytest.raises(RemoteMovedError, match="larger than 1000 bytes"):
        client.blob(registry.reference(), digest)


def test_a_blob_keeps_its_bytes_whatever_the_server_calls_their_encoding(
    client: RegistryClient, registry: FakeRegistry
) -> None:
    packed = gzip.compress(b"layer")
    digest = registry.add_blob(packed)
    registry.on("GET", "/blobs/", Answer(200, packed, {"Content-Encoding": "gzip"}))
    assert client.blob(registry.reference(), digest) == packed
    assert registry.headers[-1]["Accept-Encoding"] == "identity"


@pytest.mark.parametrize("ranges", [True, False])
def test_a_broken_download_goes_on_where_it_was(
    client: RegistryClient, registry: FakeRegistry, ranges: bool
) -> None:
    content = bytes(range(256)) * 40_000
    digest = registry.add_blob(content)
    registry.ranges = ranges
    registry.on("GET", "/blobs/", Answer(200, content, cut=5_000_000))
    assert b"".join(client.stream_blob(registry.reference(), digest)) == content
    resumed = registry.headers[-1]["Range"]
    assert re.fullmatch(r"bytes=\d{7}-", resumed)


def test_a_download_that_never_moves_on_ends(client: RegistryClient, registry: FakeRegistry) -> None:
    content = b"x" * 1000
    digest = registry.add_blob(content)
    registry.on("GET", "/blobs/", *[Answer(200, content, cut=0)] * 50)
    with pytest.raises(UnreachableError):
        list(client.stream_blob(registry.reference(), digest))


def test_wrong_bytes_are_noticed_before_the_last_of_them_is_given(
    client: RegistryClient, registry: FakeRegistry, tmp_path: Path
) -> None:
    digest = digest_of(b"right")
    registry.blobs[digest] = b"wrong"
    with pytest.raises(RemoteMovedError, match="other bytes"):
        next(client.stream_blob(registry.reference(), digest))
    with pytest.raises(RemoteMovedError):
        client.save_blob(registry.reference(), digest, tmp_path / "layer")
    assert list(tmp_path.glob("layer*")) == []


def test_a_redirected_download_does_not_show_the_credential_to_the_storage(
    make_client: Callable[..., RegistryClient], registry: FakeRegistry
) -> None:
    registry.auth, registry.users = "basic", {"ann": "pw"}
    variable = f"FLBUILD_REGISTRY_127_0_0_1_{registry.port}"
    client = make_client(**{f"{variable}_USERNAME": "ann", f"{variable}_PASSWORD": "pw"})
    digest = registry.add_blob(b"layer")
    # Another name for the same server is another host.
    elsewhere = f"http://localhost:{registry.port}/v2/storage/blobs/{digest}"
    registry.on("GET", "/storage/", Answer(200, b"layer"))
    registry.on("GET", "/team/image/blobs/", Answer.error(401, "UNAUTHORIZED", WWW_Authenticate="Basic"))
    registry.on("GET", "/team/image/blobs/", Answer(307, headers={"Location": elsewhere}))
    assert client.blob(registry.reference(), digest) == b"layer"
    assert "Authorization" in registry.headers[-2]
    assert "Authorization" not in registry.headers[-1]


def test_tags_are_read_page_by_page(client: RegistryClient, registry: FakeRegistry) -> None:
    registry.tags = ["c"]
    link = '</v2/team/image/tags/list?last=b&n=2>; rel="next"'
    page = Answer(200, json.dumps({"tags": ["b", "a"]}).encode(), {"Link": link})
    registry.on("GET", "/tags/list", page)
    assert client.tags(registry.reference()) == ("a", "b", "c")


def test_a_repository_without_tags_or_without_existence_has_none(
    client: RegistryClient, registry: FakeRegistry
) -> None:
    registry.on("GET", "/tags/list", Answer(200, b'{"tags": null}'), Answer.error(404, "NAME_UNKNOWN"))
    assert client.tags(registry.reference()) == ()
    assert client.tags(registry.reference()) == ()


def test_b37_b40_a_manifest_stored_under_another_digest_is_an_error(
    client: RegistryClient, registry: FakeRegistry
) -> None:
    other = digest_of(b"converted")
    registry.on("PUT", "/manifests/1", Answer(201, headers={"Docker-Content-Digest": other}))
    with pytest.raises(RemoteMovedError, match=f"stored: {other}"):
        client.put_manifest(registry.reference(), b"{}", INDEX)


def test_a_mirror_with_a_prefix_is_asked_in_place_of_the_host(
    make_client: Callable[..., RegistryClient], registry: FakeRegistry
) -> None:
    registry.add_manifest({"layers": []}, "1")
    client = make_client(FLBUILD_REGISTRY_QUAY_EXAMPLE_MIRROR=f"{registry.host}/cache")
    found = client.manifest(Reference.parse("quay.example/a/b:1"))
    assert registry.requests == [("GET", "/v2/cache/a/b/manifests/1")]
    assert str(found.reference) == "quay.example/a/b:1"


def test_an_unreachable_mirror_is_named_beside_the_host(make_client: Callable[..., RegistryClient]) -> None:
    client = make_client(FLBUILD_REGISTRY_QUAY_EXAMPLE_MIRROR="127.0.0.1:9")
    with pytest.raises(UnreachableError, match=r"registry quay.example cannot be reached \(asked at 127"):
        client.manifest(Reference.parse("quay.example/a/b:1"))


def test_bytes_received_are_counted(client: RegistryClient, registry: FakeRegistry) -> None:
    raw = b'{"layers": []}'
    registry.add_manifest(raw, "1")
    client.manifest(registry.reference())
    list(client.stream_blob(registry.reference(), registry.add_blob(b"x" * 1000)))
    assert client.received == len(raw) + 1000


def test_offline_asks_no_registry(make_settings: Callable[..., Settings]) -> None:
    client = RegistryClient(make_settings(), Silent(), {}, offline=True)
    with pytest.raises(HostError, match="has to be asked, and --offline forbids it"):
        client.manifest(Reference.parse("quay.io/a/b:1"))
