from __future__ import annotations

import platform
import shutil
import tarfile

import pytest

from flbuild.build.oci.interpreter import base_interpreter, require_machine
from flbuild.errors import BuildError, HostError
from flbuild.lock.model import LockedDebianBase, LockedLayer

MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
HERE = MACHINES[platform.machine()]
FOREIGN = "arm64" if HERE == "amd64" else "amd64"


@pytest.fixture
def base():
    digest = "sha256:" + "a" * 64
    layer = LockedLayer(digest=digest, size=1, media_type="x", diff_id=digest)
    return LockedDebianBase(suite="bookworm", epoch=1, layer=layer, packages=())


@pytest.fixture
def archive(tmp_path):
    def make(files):
        root = tmp_path / "root"
        for name, content in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        layer = tmp_path / "layer.tar.gz"
        with tarfile.open(layer, "w:gz") as tar:
            tar.add(root, ".")
        shutil.rmtree(root)
        return layer

    return make


def test_another_architecture_is_refused_with_a_way_out():
    require_machine(HERE)
    with pytest.raises(HostError, match=f"cannot run the {FOREIGN} interpreter") as caught:
        require_machine(FOREIGN)
    assert "python.bytecode" in caught.value.remedy


def test_a_base_without_python_is_named(base, archive, tmp_path):
    layer = archive({"usr/lib/os-release": "ID=debian\n"})
    with pytest.raises(BuildError, match=r"the base has no Python 3\.11"):
        base_interpreter(base, layer, HERE, "3.11", tmp_path / "cache")


def test_only_what_the_interpreter_needs_is_unpacked_and_only_once(base, archive, tmp_path):
    layer = archive({"usr/lib/python3.11/os.py": "", "usr/share/doc/x": "", "etc/shadow": "secret"})
    for _ in range(2):
        with pytest.raises(BuildError):
            base_interpreter(base, layer, HERE, "3.11", tmp_path / "cache")
        layer.unlink(missing_ok=True)
    root = tmp_path / "cache" / "interpreters" / ("a" * 64)
    assert (root / "usr" / "lib" / "python3.11" / "os.py").is_file()
    assert not (root / "etc").exists()
    assert not (root / "usr" / "share").exists()
