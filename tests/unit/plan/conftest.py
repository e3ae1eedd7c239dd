"""Recipes, lock entries and plugin facts, small enough to read in a test."""

from __future__ import annotations

import pytest

from flbuild.lock.model import (
    BaseDistribution,
    DebianPackage,
    GitSource,
    LockedDebianBase,
    LockedFile,
    LockedImage,
    LockedImageBase,
    LockedLayer,
    LockedSource,
    SourceFile,
    Unresolved,
)
from flbuild.recipe.model import Recipe
from flbuild.wheel.model import PluginFacts

COMMIT = "0123456789abcdef0123456789abcdef01234567"
DIGEST = "sha256:" + "d" * 64


def _layer(number=1, media_type="application/vnd.oci.image.layer.v1.tar+gzip"):
    digest = f"sha256:{number:064x}"
    return LockedLayer(digest=digest, size=1000 * number, media_type=media_type, diff_id=digest)


@pytest.fixture
def debian_base():
    return LockedDebianBase(
        suite="bookworm",
        epoch=1767225600,
        layer=_layer(),
        packages=(
            DebianPackage(name="libc6", version="2.36", architecture="amd64"),
            DebianPackage(name="python3.11-minimal", version="3.11.2-6", architecture="amd64"),
        ),
    )


@pytest.fixture
def image_base():
    def make(*inventory):
        return LockedImageBase(
            reference="quay.io/ascend/vllm-ascend:v1",
            digest=DIGEST,
            digest_kind="index",
            manifest=DIGEST,
            media_type="application/vnd.docker.distribution.manifest.v2+json",
            config=DIGEST,
            layers=(_layer(1), _layer(2)),
            inventory=tuple(
                BaseDistribution(
                    name=name, version="1.0", location=f"/site/{name}.dist-info", files=tuple(files)
                )
                for name, files in inventory
            ),
        )

    return make


def _locked_file(name, version="1.0", size=1000, index="pypi"):
    filename = f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
    sha256 = f"{sum(map(ord, name + version)):064x}"
    return LockedFile(name=name, version=version, index=index, filename=filename, sha256=sha256, size=size)


@pytest.fixture
def locked_file():
    """`locked_file(name, version, size, index)`: the pin of a wheel."""
    return _locked_file


@pytest.fixture
def locked(debian_base, vllm_source):
    """`locked(packages=(...), base=..., targets=..., sources=..., unresolved=...)`: a lock entry."""

    def make(**changes):
        values = {
            "recipe": DIGEST,
            "platform": "linux/amd64",
            "python": "3.11",
            "base": debian_base,
            "packages": (
                _locked_file("torch", "2.13.0+cpu", 200_000_000, "pytorch-cpu"),
                _locked_file("numpy", "1.26.4"),
                _locked_file("pyyaml", "6.0"),
                _locked_file("requests", "2.0"),
            ),
            "sources": (vllm_source,),
            "targets": {"ci": (_locked_file("pytest", "8.0"),)},
        }
        return LockedImage(**{**values, **changes})

    return make


@pytest.fixture
def vllm_source():
    source = SourceFile(index="pypi", filename="vllm-0.28.0.tar.gz", sha256="a" * 64, size=1)
    return LockedSource(
        name="vllm",
        version="0.28.0+empty",
        source=source,
        filename="vllm-0.28.0+empty-py3-none-any.whl",
        sha256="b" * 64,
        size=5_000_000,
    )


@pytest.fixture
def gems_source():
    source = GitSource(git="https://example.org/gems", commit=COMMIT, archive_sha256="a" * 64)
    return LockedSource(
        name="flag-gems",
        version="5.0.2",
        source=source,
        filename="flag_gems-5.0.2-py3-none-any.whl",
        sha256="c" * 64,
        size=2000,
    )


@pytest.fixture
def missing():
    return Unresolved(name="cann-shmem", version="1.6.0", source="cann", reason="did not answer")


@pytest.fixture
def recipe():
    """`recipe(KEY=VALUE, ...)`: a valid recipe with some keys replaced."""

    def make(**changes):
        values = {
            "schema": 1,
            "name": "demo",
            "summary": "a small image",
            "platform": "linux/amd64",
            "python": {"version": "3.11", "site_packages": "/usr/local/lib/python3.11/dist-packages"},
            "base": {"debian": "bookworm"},
            "vllm": {"version": "0.28.0", "device": "empty"},
            "packages": [
                {"name": "torch", "version": "2.13.0+cpu", "index": "pytorch-cpu"},
                {"name": "numpy", "version": "1.26.4"},
            ],
            "targets": {"release": {}, "ci": {"packages": ["pytest"]}},
            "env": {"VLLM_PLUGINS": "fl"},
            "image": {"repository": "example.org/team/demo", "tag": "demo-vllm{vllm}-{target}-{date}"},
        }
        return Recipe.model_validate({**values, **changes})

    return make


@pytest.fixture
def facts():
    """`facts(KEY=VALUE, ...)`: what is known of the plugin before it is built."""

    def make(**changes):
        values = {
            "name": "vllm-plugin-fl",
            "version": "1.2.0",
            "filename": "vllm_plugin_fl-1.2.0-py3-none-any.whl",
            "revision": COMMIT,
            "epoch": 1_789_000_000,
            "tagged": True,
            "archive_sha256": "e" * 64,
            "source": "https://example.org/plugin",
        }
        return PluginFacts(**{**values, **changes})

    return make
