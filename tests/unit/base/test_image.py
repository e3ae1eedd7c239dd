from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from flbuild.base.image import ImageBases
from flbuild.errors import RecipeError, RemoteMovedError
from flbuild.lock.model import LockedImageBase
from flbuild.progress import Silent
from flbuild.recipe.model import ImageBase
from flbuild.registry.manifest import RemoteManifest
from flbuild.registry.reference import Reference

REFERENCE = "quay.example/vendor/base:v1"
SITE = "usr/lib/python3.11/site-packages"


def digest_of(content: bytes) -> str:
    return f"sha256:{sha256(content).hexdigest()}"


class FakeClient:
    """Serves one image, and counts how often each blob is read."""

    def __init__(self, *layers: bytes, platform: str = "linux/arm64", **config: Any) -> None:
        os_name, architecture = platform.split("/")
        self.blobs = {digest_of(layer): layer for layer in layers}
        described = {
            "os": os_name,
            "architecture": architecture,
            "rootfs": {"type": "layers", "diff_ids": [digest_of(layer) for layer in layers]},
            **config,
        }
        self.config = json.dumps(described).encode()
        self.blobs[digest_of(self.config)] = self.config
        self.manifest = {
            "config": {"digest": digest_of(self.config)},
            "layers": [
                {"digest": digest_of(layer), "size": len(layer), "mediaType": "application/x"}
                for layer in layers
            ],
        }
        self.read: list[str] = []
        self.kind = "image"

    def image_manifest(self, reference: Reference, platform: str) -> tuple[RemoteManifest, RemoteManifest]:
        raw = json.dumps(self.manifest).encode()
        image = RemoteManifest(reference, raw, digest_of(raw), "application/vnd.oci.image.manifest.v1+json")
        index = RemoteManifest(reference, b"{}", digest_of(b"{}"), "application/vnd.oci.image.index.v1+json")
        return (index if self.kind == "index" else image), image

    def blob(self, reference: Reference, digest: str) -> bytes:
        return b"".join(self.stream_blob(reference, digest))

    def stream_blob(self, reference: Reference, digest: str) -> Iterator[bytes]:
        self.read.append(digest)
        content = self.blobs[digest]
        yield from (content[start : start + 1000] for start in range(0, len(content), 1000))
        if digest_of(content) != digest:
            raise RemoteMovedError("other bytes")


@pytest.fixture
def layers(pack: Callable[..., bytes]) -> list[bytes]:
    """Two layers with one distribution, which the upper one replaces."""

    def wheel(version: str) -> dict[str, str]:
        info = f"{SITE}/torch-{version}.dist-info"
        return {
            f"{info}/METADATA": f"Name: torch\nVersion: {version}\n",
            f"{info}/RECORD": "torch/x.py,,\n",
            f"{SITE}/torch/x.py": "x" * 5000,
        }

    upper = {f"{SITE}/.wh.torch-1.dist-info": "", **wheel("2")}
    return [gzip.compress(pack(wheel("1"))), pack(upper)]


@pytest.fixture
def bases(make_settings: Callable[..., Any]) -> Callable[[FakeClient], ImageBases]:
    """Bases that ask a fake client; they share one cache."""
    return lambda client: ImageBases(make_settings(), Silent(), client)  # type: ignore[arg-type]


def lock(found: ImageBases, platform: str = "linux/arm64") -> LockedImageBase:
    return found.lock(ImageBase(image=REFERENCE), platform)


def test_a_base_is_locked_with_digests_and_inventory(
    bases: Callable[[FakeClient], ImageBases], layers: list[bytes]
) -> None:
    client = FakeClient(*layers)
    base = lock(bases(client))
    assert (base.reference, base.digest_kind) == (REFERENCE, "image")
    assert base.digest == base.manifest == digest_of(json.dumps(client.manifest).encode())
    assert [layer.digest for layer in base.layers] == [digest_of(layer) for layer in layers]
    assert [(item.name, item.version) for item in base.inventory] == [("torch", "2")]
    assert base.inventory[0].files == (f"/{SITE}/torch", f"/{SITE}/torch-2.dist-info")


def test_an_index_is_locked_as_an_index_with_the_manifest_of_the_platform(
    bases: Callable[[FakeClient], ImageBases], layers: list[bytes]
) -> None:
    client = FakeClient(*layers)
    client.kind = "index"
    base = lock(bases(client))
    assert (base.digest_kind, base.digest) == ("index", digest_of(b"{}"))
    assert base.manifest != base.digest


def test_a_layer_is_read_once_for_ever(
    bases: Callable[[FakeClient], ImageBases], layers: list[bytes], tmp_path: Path
) -> None:
    first, second = FakeClient(*layers), FakeClient(*layers)
    once, again = lock(bases(first)), lock(bases(second))
    assert once == again
    assert len(first.read) == 3
    assert second.read == [digest_of(second.config)]
    assert not any(path.stat().st_size > 2000 for path in tmp_path.rglob("*") if path.is_file())


def test_a_new_layer_is_read_alone(
    bases: Callable[[FakeClient], ImageBases], layers: list[bytes], pack: Callable[..., bytes]
) -> None:
    lock(bases(FakeClient(*layers)))
    added = pack({"etc/new": ""})
    client = FakeClient(*layers, added)
    lock(bases(client))
    assert client.read == [digest_of(client.config), digest_of(added)]


def test_a_damaged_note_is_made_again(
    bases: Callable[[FakeClient], ImageBases], layers: list[bytes], tmp_path: Path
) -> None:
    whole = lock(bases(FakeClient(*layers)))
    for note in tmp_path.rglob("*.json.gz"):
        note.write_bytes(note.read_bytes()[:-9])
    client = FakeClient(*layers)
    assert lock(bases(client)) == whole
    assert len(client.read) == 3


def test_a_layer_with_other_bytes_leaves_no_note(
    bases: Callable[[FakeClient], ImageBases], layers: list[bytes], tmp_path: Path
) -> None:
    client = FakeClient(*layers)
    client.blobs[digest_of(layers[1])] = layers[1] + b"\0" * 512
    with pytest.raises(RemoteMovedError, match="other bytes"):
        lock(bases(client))
    assert len(list(tmp_path.rglob("*.json.gz"))) == 1


@pytest.mark.parametrize(
    "content", [b"no tar at all" * 100, gzip.compress(b"x" * 9999)[:-20]], ids=["plain", "cut"]
)
def test_a_layer_that_is_no_tar_is_told(bases: Callable[[FakeClient], ImageBases], content: bytes) -> None:
    with pytest.raises(RemoteMovedError, match="is no tar"):
        lock(bases(FakeClient(content)))


def test_an_image_of_another_platform_is_refused_before_a_layer_is_read(
    bases: Callable[[FakeClient], ImageBases], layers: list[bytes]
) -> None:
    client = FakeClient(*layers, platform="linux/amd64")
    with pytest.raises(RecipeError, match="is for linux/amd64, the recipe for linux/arm64"):
        lock(bases(client))
    assert len(client.read) == 1


@pytest.mark.parametrize("config", [{"rootfs": {"diff_ids": []}}, {"rootfs": None}, {"os": None}])
def test_what_is_no_image_is_refused(
    bases: Callable[[FakeClient], ImageBases], layers: list[bytes], config: dict[str, Any]
) -> None:
    with pytest.raises(RecipeError):
        lock(bases(FakeClient(*layers, **config)))


def test_the_config_is_read_once_and_checked_in_the_cache(
    bases: Callable[[FakeClient], ImageBases], layers: list[bytes], tmp_path: Path
) -> None:
    client = FakeClient(*layers)
    base = lock(bases(client))
    client.read.clear()
    assert bases(client).config(base) == bases(client).config(base) == client.config
    assert len(client.read) == 1
    next((tmp_path / "cache/configs").iterdir()).write_bytes(b"{}")
    assert bases(client).config(base) == client.config
    assert len(client.read) == 2


def test_file_lists_are_made_again_without_asking_the_tag(
    bases: Callable[[FakeClient], ImageBases], layers: list[bytes]
) -> None:
    base = lock(bases(FakeClient(*layers)))
    bare = base.model_copy(
        update={"inventory": tuple(item.model_copy(update={"files": ()}) for item in base.inventory)}
    )
    assert bases(FakeClient(*layers)).relist(bare, "linux/arm64") == base
