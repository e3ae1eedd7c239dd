"""A recipe with something of everything a page tells, and its lock entry."""

from __future__ import annotations

import pytest

from flbuild.lock.model import (
    GitSource,
    LockedFile,
    LockedImage,
    LockedImageBase,
    LockedLayer,
    LockedSource,
    Output,
    PluginRecord,
    SourceFile,
    Unresolved,
)
from flbuild.recipe.model import Recipe

DIGEST = "sha256:" + "d" * 64
LAYER = LockedLayer(digest=DIGEST, size=1, media_type="application/x", diff_id=DIGEST)


def wheel(name, version):
    return LockedFile(
        name=name, version=version, index="pypi", filename=f"{name}.whl", sha256="a" * 64, size=1
    )


def source(name, version, origin):
    return LockedSource(
        name=name, version=version, source=origin, filename=f"{name}.whl", sha256="b" * 64, size=1
    )


@pytest.fixture
def recipe():
    """`recipe(KEY=VALUE)`: the recipe with other keys."""

    def make(**changes):
        values = {
            "schema": 1,
            "name": "demo",
            "summary": "a demo",
            "platform": "linux/arm64",
            "python": {"version": "3.11", "site_packages": "/usr/lib/python3/site-packages"},
            "base": {"image": "quay.io/team/base:v1", "provides": {"torch": "2.10.0"}, "remove": ["gone"]},
            "vllm": {"version": "0.28.0"},
            "packages": [
                {"name": "gems", "version": "5", "git": "https://git.example/gems", "commit": "c" * 40},
                {"name": "numpy", "version": "1.26.4"},
                {"name": "tree", "version": "6", "index": "vendor", "provides_modules": {"triton": "3.5"}},
            ],
            "waivers": [
                {
                    "check": "requirements",
                    "subject": "x needs y>=2|z",
                    "reason": "nothing here calls it",
                    "expires": "2027-01-02",
                }
            ],
            "targets": {
                "release": {"size_budget": 5_000_000},
                "ci": {"packages": ["pytest"]},
                "dev": {"extends": "ci", "packages": ["ruff"]},
            },
            "image": {"repository": "registry.example/team/demo", "tag": "demo-{vllm}-{target}-{date}"},
            "ci": {
                "runner_labels": ["npu"],
                "options": ["--privileged"],
                "devices": ["/dev/npu0"],
                "volumes": ["/data:/data:ro"],
                "env": {"NOTE": "two words"},
            },
        }
        return Recipe.model_validate({**values, **changes})

    return make


@pytest.fixture
def locked():
    """The lock entry: one input is unresolved, one output published and one not."""
    base = LockedImageBase(
        reference="quay.io/team/base:v1",
        digest=DIGEST,
        digest_kind="image",
        manifest=DIGEST,
        media_type="application/x",
        config=DIGEST,
        layers=(LAYER,),
    )
    output = Output(
        target="release",
        reference="registry.example/team/demo:demo-1",
        manifest=DIGEST,
        config=DIGEST,
        layers=(DIGEST,),
        diff_ids=(DIGEST,),
        revision="e" * 40,
        plugin=PluginRecord(version="1", filename="p.whl", sha256="f" * 64),
        builder="oci",
        created="2026-01-02T03:04:05Z",
    )
    git = GitSource(git="https://git.example/gems", commit="c" * 40, archive_sha256="d" * 64)
    sdist = SourceFile(index="pypi", filename="vllm-0.28.0.tar.gz", sha256="a" * 64, size=1)
    return LockedImage(
        recipe=DIGEST,
        platform="linux/arm64",
        python="3.11",
        base=base,
        sources=(source("vllm", "0.28.0+empty", sdist), source("gems", "5", git)),
        packages=(wheel("numpy", "1.26.4"), wheel("idna", "3"), wheel("certifi", "4")),
        unresolved=(Unresolved(name="tree", version="6", source="vendor", reason="it could not be reached"),),
        outputs=(output, output.model_copy(update={"reference": None, "target": "ci"})),
    )
