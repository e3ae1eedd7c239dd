"""An install scheme, planned wheels, and a plan of a few layers, all from hand-made wheels."""

from __future__ import annotations

import gzip
import hashlib
import io
import sys
import tarfile
from pathlib import Path

import pytest

from flbuild.build.oci.interpreter import Interpreter
from flbuild.lock.model import LockedImageBase, LockedLayer
from flbuild.plan.model import InstallScheme, Plan, PlannedConfig, PlannedLayer, PlannedWheel

SITE = "usr/local/lib/python3.11/dist-packages"
DIGEST = "sha256:" + "d" * 64


@pytest.fixture
def scheme():
    return InstallScheme(
        python_version="3.11",
        executable="/usr/bin/python3",
        site_packages=f"/{SITE}",
        scripts="/usr/local/bin",
        data="/usr/local",
        headers="/usr/local/include/python3.11",
        bytecode=False,
    )


@pytest.fixture
def planned():
    """`planned(path)`: a wheel file as a plan names it."""

    def make(path, **changes):
        name, version = path.name.split("-")[:2]
        data = path.read_bytes()
        values = {
            "name": name.replace("_", "-"),
            "version": version,
            "filename": path.name,
            "sha256": hashlib.sha256(data).hexdigest(),
            "size": len(data),
            "origin": "index",
        }
        return PlannedWheel(**{**values, **changes})

    return make


@pytest.fixture
def interpreter():
    """The Python of the tests in the role of the base's."""
    return Interpreter((sys.executable, "-S", "-s", "-B"), (("PYTHONHASHSEED", "0"),))


class Given:
    """What a builder is given: wheels alone."""

    def __init__(self, files):
        self._files = files

    def files(self):
        return self._files


class Wheels:
    """Wheels of a test, and the plan that installs them."""

    def __init__(self, folder, make_wheel, planned, scheme):
        self.folder = folder
        self.files = {}
        self.inputs = Given(self.files)
        self._make_wheel = make_wheel
        self._planned = planned
        self._scheme = scheme

    def add(self, name, files, *, version="1.0", **changes):
        path = self._make_wheel(self.folder, name, version, files=files)
        wheel = self._planned(path, **changes)
        self.files[wheel.sha256] = path
        return wheel

    def plan(self, *layers, base=None, **changes):
        values = {
            "name": "demo",
            "target": "release",
            "os": "linux",
            "architecture": "amd64",
            "base": base or image_base(),
            "scheme": self._scheme,
            "layers": layers,
            "config": PlannedConfig(created="2026-09-10T00:26:40Z"),
            "epoch": 1_789_000_000,
            "revision": "0" * 40,
            "repository": "example.org/demo",
            "tag": "v1",
        }
        return Plan(**{**values, **changes})


@pytest.fixture
def wheels(tmp_path, make_wheel, planned, scheme):
    return Wheels(tmp_path / "wheels", make_wheel, planned, scheme)


def image_base(*media_types):
    types = media_types or ("application/vnd.docker.image.rootfs.diff.tar.gzip",)
    layers = tuple(
        LockedLayer(digest=f"sha256:{n:064x}", size=n, media_type=kind, diff_id=f"sha256:{n + 99:064x}")
        for n, kind in enumerate(types, 1)
    )
    return LockedImageBase(
        reference="quay.io/base/image:v1",
        digest=DIGEST,
        digest_kind="index",
        manifest=DIGEST,
        media_type="application/vnd.docker.distribution.manifest.v2+json",
        config=DIGEST,
        layers=layers,
    )


def layer(name, *planned_wheels, **changes):
    return PlannedLayer(name, "wheels", f"for {name}", tuple(planned_wheels), **changes)


@pytest.fixture
def read_layer():
    """`read_layer(path or bytes)`: the tar members of a layer by name, and their content."""

    def read(source):
        data = source.read_bytes() if isinstance(source, Path) else source
        with tarfile.open(fileobj=io.BytesIO(gzip.decompress(data))) as tar:
            return {
                member.name: (member, tar.extractfile(member).read() if member.isfile() else None)
                for member in tar
            }

    return read
