"""Plans of two targets, small enough to read, and the stages made of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from flbuild.lock.model import (
    DebianPackage,
    GitSource,
    LockedDebianBase,
    LockedFile,
    LockedImageBase,
    LockedLayer,
    LockedSource,
    SourceFile,
)
from flbuild.plan.model import InstallScheme, Plan, PlannedConfig, PlannedLayer, PlannedWheel
from flbuild.render.stages import Blueprint, make_stages

DIGEST = "sha256:" + "d" * 64
SITE = "/usr/local/lib/python3.11/dist-packages"
LAYER = LockedLayer(digest=DIGEST, size=10, media_type="application/x", diff_id=DIGEST)
TEMPLATES = Path(__file__).parents[3] / "templates"
PLUGIN_SHA256 = "f" * 64


def _wheel(name, version="1.0", origin="index"):
    sha256 = f"{sum(map(ord, name)):064x}"
    if origin == "plugin":
        sha256 = PLUGIN_SHA256
    index = "pypi" if origin == "index" else None
    return PlannedWheel(name, version, f"{name}-{version}-py3-none-any.whl", sha256, 5, origin, index)


def _layer(name, *wheels):
    return PlannedLayer(name, "wheels", f"why {name}", wheels)


PLUGIN = _layer("plugin", _wheel("plugin", origin="plugin"))
VLLM = LockedSource(
    name="vllm",
    version="0.28.0+empty",
    source=SourceFile(index="pypi", filename="vllm-0.28.0.tar.gz", sha256="a" * 64, size=7),
    env={"VLLM_TARGET_DEVICE": "empty"},
    filename="vllm-0.28.0+empty-py3-none-any.whl",
    sha256=f"{sum(map(ord, 'vllm')):064x}",
    size=9,
)
GEMS = LockedSource(
    name="flag-gems",
    version="5.0.2",
    source=GitSource(git="https://example.org/gems", commit="c" * 40, archive_sha256="b" * 64),
    filename="flag_gems-5.0.2-py3-none-any.whl",
    sha256="e" * 64,
    size=9,
)
TOOL = LockedFile(
    name="setuptools",
    version="80",
    index="pypi",
    filename="setuptools-80-py3-none-any.whl",
    sha256="1" * 64,
    size=1,
)
PIP = LockedFile(
    name="pip", version="26", index="pypi", filename="pip-26-py3-none-any.whl", sha256="2" * 64, size=1
)


@pytest.fixture
def wheel():
    """`wheel(name, version, origin)`: a planned wheel."""
    return _wheel


@pytest.fixture
def layer():
    """`layer(id, wheel, ...)`: a planned layer."""
    return _layer


@pytest.fixture
def debian_base():
    libc = DebianPackage(name="libc6", version="2.36", architecture="amd64")
    return LockedDebianBase(suite="bookworm", epoch=0, layer=LAYER, packages=(libc,))


@pytest.fixture
def image_base():
    return LockedImageBase(
        reference="quay.io/team/base:v1",
        digest=DIGEST,
        digest_kind="index",
        manifest="sha256:" + "c" * 64,
        media_type="application/vnd.oci.image.manifest.v1+json",
        config=DIGEST,
        layers=(LAYER,),
    )


@pytest.fixture
def plan(debian_base):
    """`plan(target, layers, KEY=VALUE)`: a plan whose last layer is the plugin."""

    def make(target="release", layers=None, **changes):
        if layers is None:
            layers = (
                _layer("dependencies", _wheel("requests")),
                _layer("vllm", _wheel("vllm", origin="source")),
            )
        planned = Plan(
            name="demo",
            target=target,
            os="linux",
            architecture="amd64",
            base=debian_base,
            scheme=InstallScheme(
                "3.11", "/usr/bin/python3", SITE, "/usr/local/bin", "/usr/local", "/i", True
            ),
            layers=(*layers, PLUGIN),
            config=PlannedConfig(
                env=(("VLLM_PLUGINS", "fl"),),
                labels=(("org.opencontainers.image.title", f"demo {target}"),),
                workdir="/workspace",
                entrypoint=("vllm", "serve"),
                cmd=("--help",),
                created="2026-01-01T00:00:00Z",
            ),
            epoch=0,
            revision="0" * 40,
            repository="example.org/team/demo",
            tag=f"demo-{target}",
        )
        return replace(planned, **changes)

    return make


@pytest.fixture
def stages(plan):
    """`stages(plan, ..., sources=..., tools=..., targets=...)`."""

    def make(*plans, sources=(VLLM,), tools=(TOOL, PIP), targets=None):
        plans = plans or (plan(),)
        wanted = tuple(item.target for item in plans) if targets is None else targets
        return make_stages(Blueprint(tuple(plans), sources, tools, wanted))

    return make
