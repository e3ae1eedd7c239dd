"""A plan on a registry base, and what a builder of Dockerfiles is given for it."""

from __future__ import annotations

import pytest

from flbuild.lock.model import LockedImageBase, LockedLayer
from flbuild.plan.model import InstallScheme, Plan, PlannedConfig

DIGEST = "sha256:" + "d" * 64


@pytest.fixture
def based_plan():
    """`based_plan(diff_id=...)`: a plan for arm64 whose base has one layer."""

    def make(diff_id=DIGEST, layer=DIGEST):
        media_type = "application/vnd.docker.image.rootfs.diff.tar.gzip"
        base = LockedImageBase(
            reference="quay.io/team/base:v1",
            digest=DIGEST,
            digest_kind="index",
            manifest="sha256:" + "c" * 64,
            media_type="application/vnd.docker.distribution.manifest.v2+json",
            config=DIGEST,
            layers=(LockedLayer(digest=layer, size=7, media_type=media_type, diff_id=diff_id),),
        )
        return Plan(
            name="demo",
            target="release",
            os="linux",
            architecture="arm64",
            base=base,
            scheme=InstallScheme("3.11", "/usr/bin/python3", "/s", "/b", "/d", "/h", False),
            layers=(),
            config=PlannedConfig(created="2026-01-01T00:00:00Z"),
            epoch=0,
            revision="0" * 40,
            repository="example.org/demo",
            tag="v1",
        )

    return make


class Context:
    """A context of one file."""

    def files(self):
        raise AssertionError("a builder of Dockerfiles takes the context")

    def write_context(self, folder):
        folder.mkdir()
        (folder / "Dockerfile").write_text("FROM scratch\n")


@pytest.fixture
def context():
    return Context()


@pytest.fixture
def program(tmp_path):
    """`program(name, script)`: a shell script of that name; the result is a PATH that finds it first."""

    def make(name, script):
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
        return f"{folder}:/usr/bin:/bin"

    return make
