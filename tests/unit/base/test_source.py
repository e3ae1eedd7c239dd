from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any

import pytest

from flbuild.base.source import BaseSource
from flbuild.build.oci.cache import LayerCache
from flbuild.errors import HostError
from flbuild.files import sha256_bytes
from flbuild.lock.model import LockedDebianBase, LockedImageBase, LockedLayer
from flbuild.progress import Silent

LAYER = LockedLayer(digest=f"sha256:{'1' * 64}", size=5, media_type="x", diff_id=f"sha256:{'2' * 64}")


class FakeClient:
    def __init__(self, content: bytes) -> None:
        self.content = content

    def blob(self, reference: object, digest: str) -> bytes:
        assert str(reference) == "quay.example/vendor/base:v1"
        return self.content


@pytest.fixture
def source(make_settings: Callable[..., Any]) -> Callable[..., BaseSource]:
    return lambda platform="linux/amd64": BaseSource(
        make_settings(),
        Silent(),
        FakeClient(b"config"),
        platform,  # type: ignore[arg-type]
    )


def debian(layer: LockedLayer) -> LockedDebianBase:
    return LockedDebianBase(suite="bookworm", epoch=1, layer=layer, packages=())


def test_the_layer_of_a_debian_base_is_a_file_of_the_cache(
    source: Callable[..., BaseSource], make_settings: Callable[..., Any]
) -> None:
    layer = LAYER.model_copy(update={"digest": f"sha256:{sha256_bytes(b'layer')}"})
    path = LayerCache(make_settings().cache_dir).path(layer.digest)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"layer")
    assert source().debian_layer(debian(layer)) == path


def test_a_debian_base_is_of_the_platform_of_the_recipe(source: Callable[..., BaseSource]) -> None:
    other = "linux/arm64" if platform.machine() == "x86_64" else "linux/amd64"
    with pytest.raises(HostError, match="cannot be made on this machine"):
        source(other).debian_layer(debian(LAYER))


def test_the_config_of_an_image_base_comes_from_its_registry(source: Callable[..., BaseSource]) -> None:
    digest = f"sha256:{sha256_bytes(b'config')}"
    base = LockedImageBase(
        reference="quay.example/vendor/base:v1",
        digest=LAYER.digest,
        digest_kind="index",
        manifest=LAYER.digest,
        media_type="x",
        config=digest,
        layers=(LAYER,),
    )
    assert source().image_config(base) == b"config"
