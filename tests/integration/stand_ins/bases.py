"""Images that carry what the bases of the hardware recipes carry, put into a registry layer by layer."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import requests

from flbuild.base.debian import DebianBases
from flbuild.index.client import IndexClient
from flbuild.index.store import FileRef, FileStore
from flbuild.progress import Silent
from flbuild.project import Project
from flbuild.recipe.load import load_recipe
from flbuild.recipe.model import DebianBase
from flbuild.settings import Settings
from stand_ins.packages import distribution, shared_library

ASCEND = ("ascend/vllm-ascend", "v0.20.2rc1-a3")
CUDA = ("vllm/vllm-openai", "v0.28.0-cu129")

_PYTHON = "usr/local/python3.11.15"
_SITE = f"{_PYTHON}/lib/python3.11/site-packages"
_DIST = "usr/local/lib/python3.12/dist-packages"
_WORK = "vllm-workspace"

_DOCKER = "application/vnd.docker"
_LAYER = f"{_DOCKER}.image.rootfs.diff.tar.gzip"
_CONFIG = f"{_DOCKER}.container.image.v1+json"
_MANIFEST = f"{_DOCKER}.distribution.manifest.v2+json"
_INDEX = f"{_DOCKER}.distribution.manifest.list.v2+json"

TORCH_NPU = FileRef(
    "torch-npu",
    "pypi",
    "torch_npu-2.10.0-cp311-cp311-manylinux_2_28_aarch64.whl",
    "07e9d39a77577873c8a1a2d6741129d15d6b7a54d2c07a1cc3a294242689fea7",
    32514994,
)

Tree = dict[str, bytes]
"""A layer's files by path, and folders, which end in a slash. Content `-> PLACE` makes a link."""

_MOUNTED: Tree = {"dev/": b"", "etc/hostname": b"", "etc/hosts": b"", "etc/resolv.conf": b""}
"""What engines mount over, and leave behind in images whose base lacks it."""


@dataclass(frozen=True)
class Layer:
    """A gzipped tar. Both digests are OCI's."""

    content: bytes
    diff_id: str

    @classmethod
    def of(cls, tree: Mapping[str, bytes]) -> Layer:
        """The layer of a tree, owned by root; folders come with their files."""
        plain = io.BytesIO()
        with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for folder in sorted({str(above) for path in tree for above in Path(f"{path}x").parents} - {"."}):
                member = tarfile.TarInfo(folder)
                member.type, member.mode = tarfile.DIRTYPE, 0o755
                tar.addfile(member)
            for path, data in sorted(tree.items()):
                if path.endswith("/"):
                    continue
                member = tarfile.TarInfo(path)
                member.mode = 0o755 if "/bin/" in path else 0o644
                if data.startswith(b"-> "):
                    member.type, member.linkname = tarfile.SYMTYPE, data[3:].decode()
                    tar.addfile(member)
                else:
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))
        return cls(gzip.compress(plain.getvalue(), 1, mtime=0), digest(plain.getvalue()))


def digest(content: bytes) -> str:
    """As OCI writes it."""
    return f"sha256:{sha256(content).hexdigest()}"


def push_bases(host: str, settings: Settings, project: Project) -> None:
    """Put both bases into the registry at `host`. What they stand on is the base of the cpu recipe."""
    registry = _Registry(f"http://{host}/v2")
    debian = _debian(settings, project)
    npu = FileStore(settings, IndexClient(settings, Silent()), Silent()).fetch(TORCH_NPU)
    ascend = [debian, Layer.of(_ascend_python(npu)), Layer.of(_ascend_sources())]
    path = f"/{_PYTHON}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    env = [f"PATH={path}", "ASCEND_TOOLKIT_HOME=/usr/local/Ascend/ascend-toolkit/latest", "DEBIAN_FRONTEND="]
    arm = registry.push_image(ASCEND[0], ascend, {"Env": env, "Cmd": ["/bin/bash"]}, "arm64")
    other = registry.push_image(ASCEND[0], [debian], {"Env": env}, "amd64")
    registry.push_index(*ASCEND, {"arm64": arm, "amd64": other})
    cuda = [debian, Layer.of(_cuda())]
    env = ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "CUDA_VERSION=12.9.1"]
    registry.push_image(CUDA[0], cuda, {"Env": env, "Entrypoint": ["vllm", "serve"]}, "amd64", CUDA[1])


def _debian(settings: Settings, project: Project) -> Layer:
    base = load_recipe(project.recipe_path("cpu")).base
    assert isinstance(base, DebianBase)
    bases = DebianBases(settings, Silent())
    locked = bases.lock(base, "linux/amd64")
    return Layer(bases.layer(locked, "linux/amd64").read_bytes(), locked.layer.diff_id)


def _ascend_python(npu: Path) -> Tree:
    family = {"torchvision": "0.25.0+cpu", "torchaudio": "2.10.0+cpu"}
    with zipfile.ZipFile(npu) as archive:
        real = {
            f"{_SITE}/{name}": archive.read(name) for name in archive.namelist() if not name.endswith("/")
        }
    triton = {"triton/__init__.py": b'__version__ = "3.2.1"\n', "triton/backends/ascend/__init__.py": b""}
    installed: list[Tree] = [
        distribution("torch", "2.10.0+cpu", {"torch/__init__.py": b'__version__ = "2.10.0+cpu"\n'}),
        *(distribution(name, version, {f"{name}/__init__.py": b""}) for name, version in family.items()),
        distribution("triton-ascend", "3.2.1", triton),
        distribution("numpy", "2.3.5", {"numpy/__init__.py": b'__version__ = "2.3.5"\n'}),
    ]
    return {
        **_MOUNTED,
        f"{_PYTHON}/pyvenv.cfg": b"home = /usr/bin\ninclude-system-site-packages = false\n",
        f"{_PYTHON}/include/": b"",
        f"{_PYTHON}/share/": b"",
        f"{_PYTHON}/bin/python3": b"-> /usr/bin/python3.11",
        f"{_PYTHON}/bin/python3.11": b"-> python3",
        "usr/local/Ascend/ascend-toolkit/latest/version.cfg": b"toolkit_running_version=[9.0.0]\n",
        "usr/local/Ascend/ascend-toolkit/set_env.sh": b"export ASCEND_TOOLKIT_HOME=/usr/local/Ascend\n",
        **real,
        **{f"{_SITE}/{path}": data for tree in installed for path, data in tree.items()},
    }


def _ascend_sources() -> Tree:
    """Two editable installs: what pip writes for setuptools' two ways of making one."""
    vllm, ascend = f"{_WORK}/vllm", f"{_WORK}/vllm-ascend"
    pth, finder = "__editable__.vllm-0.20.2.pth", "__editable___vllm_ascend_0_20_2rc1_finder"
    first = _editable("vllm", "0.20.2", f"/{vllm}", {pth: f"/{vllm}\n".encode()})
    mapping = {"vllm_ascend": f"/{ascend}/vllm_ascend"}
    second = _editable(
        "vllm_ascend",
        "0.20.2rc1",
        f"/{ascend}",
        {
            "__editable__.vllm_ascend-0.20.2rc1.pth": f"import {finder}; {finder}.install()\n".encode(),
            f"{finder}.py": f"MAPPING: dict[str, str] = {mapping!r}\n\ndef install(): ...\n".encode(),
        },
    )
    return {
        f"{vllm}/vllm/__init__.py": b'__version__ = "0.20.2"\n',
        f"{vllm}/vllm.egg-info/PKG-INFO": b"Metadata-Version: 2.1\nName: vllm\nVersion: 0.20.2\n",
        f"{vllm}/pyproject.toml": b"[project]\nname = 'vllm'\n",
        f"{ascend}/vllm_ascend/__init__.py": b"",
        f"{ascend}/vllm_ascend/_C.so": shared_library("aarch64"),
        f"{ascend}/csrc/build.sh": b"exit 0\n",
        **{f"{_SITE}/{path}": data for path, data in {**first, **second}.items()},
    }


def _editable(name: str, version: str, source: str, files: Tree) -> Tree:
    record = {"url": f"file://{source}", "dir_info": {"editable": True}}
    direct = f"{name}-{version}.dist-info/direct_url.json"
    return distribution(name, version, {**files, direct: json.dumps(record).encode()})


def _cuda() -> Tree:
    versions = {"torch": "2.13.0+cu129", "vllm": "0.28.0", "triton": "3.6.0", "numpy": "2.3.5"}
    installed = [
        distribution(name, version, {f"{name}/__init__.py": f'__version__ = "{version}"\n'.encode()})
        for name, version in versions.items()
    ]
    # A line that runs, as the base's own sitecustomize is byte-code that nothing compares with its source.
    path = f'import site; site.addsitedir("/{_DIST}")\n'
    return {
        **_MOUNTED,
        "usr/bin/python3.12": b"-> python3.11",
        "usr/lib/python3/dist-packages/python312.pth": path.encode(),
        "usr/local/cuda-12.9/version.json": b'{"cuda": {"name": "CUDA SDK", "version": "12.9.1"}}\n',
        **{f"{_DIST}/{path}": data for tree in installed for path, data in tree.items()},
    }


class _Registry:
    def __init__(self, url: str) -> None:
        self._url = url

    def push_image(
        self,
        name: str,
        layers: list[Layer],
        runtime: dict[str, Any],
        architecture: str,
        tag: str | None = None,
    ) -> tuple[str, int]:
        """Push layers, config and manifest; the digest and the size of the manifest."""
        variant = {"variant": "v8"} if architecture == "arm64" else {}
        config = {
            "architecture": architecture,
            **variant,
            "os": "linux",
            "created": "2026-06-01T00:00:00Z",
            "config": runtime,
            "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in layers]},
            "history": [{"created": "2026-06-01T00:00:00Z", "created_by": "stand-in"} for _ in layers],
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": self._blob(name, _CONFIG, json.dumps(config).encode()),
            "layers": [self._blob(name, _LAYER, layer.content) for layer in layers],
        }
        return self._manifest(name, tag, manifest)

    def push_index(self, name: str, tag: str, manifests: Mapping[str, tuple[str, int]]) -> None:
        """Push what names one image per architecture."""
        items = [
            {
                "mediaType": _MANIFEST,
                "digest": found,
                "size": size,
                "platform": {"architecture": architecture, "os": "linux"},
            }
            for architecture, (found, size) in manifests.items()
        ]
        self._manifest(name, tag, {"schemaVersion": 2, "mediaType": _INDEX, "manifests": items})

    def _blob(self, name: str, media_type: str, content: bytes) -> dict[str, Any]:
        found = digest(content)
        if requests.head(f"{self._url}/{name}/blobs/{found}", timeout=60).status_code == 404:
            start = requests.post(f"{self._url}/{name}/blobs/uploads/", timeout=60)
            start.raise_for_status()
            place = start.headers["Location"]
            done = requests.put(place, params={"digest": found}, data=content, timeout=60)
            done.raise_for_status()
        return {"mediaType": media_type, "digest": found, "size": len(content)}

    def _manifest(self, name: str, tag: str | None, content: dict[str, Any]) -> tuple[str, int]:
        raw = json.dumps(content).encode()
        place = f"{self._url}/{name}/manifests/{tag or digest(raw)}"
        requests.put(
            place, data=raw, headers={"Content-Type": content["mediaType"]}, timeout=60
        ).raise_for_status()
        return digest(raw), len(raw)
