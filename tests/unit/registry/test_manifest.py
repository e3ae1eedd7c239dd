from __future__ import annotations

import json
from typing import Any

import pytest

from flbuild.errors import RemoteGoneError, UnreachableError
from flbuild.registry.manifest import RemoteManifest, choose_image, read_manifest
from flbuild.registry.reference import Reference

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
DOCKER_LIST = "application/vnd.docker.distribution.manifest.list.v2+json"


def read(content: Any, content_type: str = "") -> RemoteManifest:
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    return read_manifest(Reference.parse("quay.io/a/b:1"), raw, "sha256:x", content_type)


def index(*platforms: str) -> RemoteManifest:
    children = []
    for number, text in enumerate(platforms):
        os_name, architecture, *variant = text.split("/")
        platform = {
            "os": os_name,
            "architecture": architecture,
            **({"variant": variant[0]} if variant else {}),
        }
        children.append({"digest": f"sha256:{number}", "platform": platform})
    return read({"mediaType": INDEX, "manifests": children})


@pytest.mark.parametrize(
    ("content", "content_type", "media_type", "kind"),
    [
        ({"mediaType": MANIFEST}, INDEX, MANIFEST, "image"),
        ({"mediaType": DOCKER_LIST}, "", DOCKER_LIST, "index"),
        ({"manifests": []}, INDEX, INDEX, "index"),
        ({"manifests": []}, "text/plain", INDEX, "index"),
        ({"layers": []}, "application/octet-stream", MANIFEST, "image"),
        ({"mediaType": "application/vnd.future+json", "layers": []}, "", MANIFEST, "image"),
    ],
)
def test_a_manifest_is_what_it_says_else_what_the_header_says_else_what_it_looks_like(
    content: dict[str, Any], content_type: str, media_type: str, kind: str
) -> None:
    found = read(content, content_type)
    assert (found.media_type, found.kind) == (media_type, kind)


@pytest.mark.parametrize("raw", [b"<html>log in</html>", b"[]", b"", b"\xff\xfe"])
def test_a_page_in_place_of_a_manifest_is_no_registry(raw: bytes) -> None:
    with pytest.raises(UnreachableError, match="no registry"):
        read(raw)


def test_schema_1_is_refused_by_name() -> None:
    with pytest.raises(RemoteGoneError, match="schema 1"):
        read({"schemaVersion": 1, "fsLayers": []})


@pytest.mark.parametrize(
    ("platform", "offered", "chosen"),
    [
        ("linux/arm64", ["linux/amd64", "linux/arm64"], "sha256:1"),
        ("linux/arm64", ["linux/amd64", "linux/arm64/v8"], "sha256:1"),
        ("linux/arm64", ["linux/arm64/v9", "linux/arm64/v8"], "sha256:1"),
        ("linux/amd64", ["linux/amd64/v3", "linux/amd64", "unknown/unknown"], "sha256:1"),
        ("linux/amd64/v3", ["linux/amd64", "linux/amd64/v3"], "sha256:1"),
        ("linux/amd64", ["windows/amd64", "linux/amd64"], "sha256:1"),
    ],
)
def test_the_image_that_runs_on_every_machine_of_the_platform_is_chosen(
    platform: str, offered: list[str], chosen: str
) -> None:
    assert choose_image(index(*offered), platform) == chosen


@pytest.mark.parametrize(
    ("platform", "offered", "said"),
    [
        (
            "linux/arm64",
            ["linux/amd64", "unknown/unknown"],
            "no image for linux/arm64\n  cause: .*offers linux/amd64\n",
        ),
        ("linux/arm64", ["linux/arm64/v9"], "no image for linux/arm64\n  cause: .*linux/arm64/v9"),
        ("linux/amd64", ["linux/amd64", "linux/amd64"], "has 2 images for linux/amd64"),
        ("linux/amd64", [], "offers nothing"),
    ],
)
def test_no_obvious_image_is_an_error_that_lists_what_is_offered(
    platform: str, offered: list[str], said: str
) -> None:
    with pytest.raises(RemoteGoneError, match=said):
        choose_image(index(*offered), platform)
