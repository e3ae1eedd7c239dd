"""Hand-made images: layers of named files, a config and a manifest, in OCI's layout, with a fitting lock."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import tarfile
import zipfile
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

import pytest

from flbuild.lock.model import (
    BaseDistribution,
    DebianPackage,
    LockedDebianBase,
    LockedFile,
    LockedImage,
    LockedImageBase,
    LockedLayer,
    Output,
    PluginRecord,
)
from flbuild.progress import Silent
from flbuild.recipe.model import Recipe
from flbuild.verify.checks import CHECKS, run_checks
from flbuild.verify.context import Verification
from flbuild.verify.files import read_files
from flbuild.verify.image import _unread
from flbuild.verify.run.observed import Observed
from flbuild.verify.subject import open_subject

SITE = "usr/local/lib/python3.11/dist-packages"
GZIP = "application/vnd.oci.image.layer.v1.tar+gzip"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
CREATED = "2026-01-02T03:04:05Z"
LABELS = "org.opencontainers.image."


@dataclass(frozen=True)
class Link:
    """A symbolic or hard link in a layer."""

    target: str
    hard: bool = False


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def tar_of(files) -> bytes:
    """A layer: a path ends in / for a folder; values are bytes, Links, or (bytes, mode)."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for path, value in files.items():
            member = tarfile.TarInfo(path.rstrip("/"))
            content, member.mode = value if isinstance(value, tuple) else (value, 0o644)
            if path.endswith("/"):
                member.type = tarfile.DIRTYPE
                tar.addfile(member)
            elif isinstance(content, Link):
                member.type = tarfile.LNKTYPE if content.hard else tarfile.SYMTYPE
                member.linkname = content.target
                tar.addfile(member)
            else:
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def record_of(files, own: str) -> bytes:
    rows = []
    for path, content in sorted(files.items()):
        encoded = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
        rows.append(f"{path},sha256={encoded},{len(content)}\n")
    return ("".join(rows) + f"{own},,\n").encode()


def distribution(name, version, *, requires=(), files=None, entry_points="", site=SITE):
    """The installed files of a distribution, RECORD included; `files` are relative to site-packages."""
    module = name.replace("-", "_")
    info = f"{module}-{version}.dist-info"
    metadata = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}"]
    metadata += [f"Requires-Dist: {text}" for text in requires]
    content = {f"{module}/__init__.py": b"value = 1\n"} if files is None else dict(files)
    content[f"{info}/METADATA"] = ("\n".join(metadata) + "\n").encode()
    if entry_points:
        content[f"{info}/entry_points.txt"] = entry_points.encode()
    content[f"{info}/RECORD"] = record_of(content, f"{info}/RECORD")
    return {f"{site}/{path}": data for path, data in content.items()}


def wheel_of(folder: Path, name, version, **changes) -> Path:
    """The wheel that installs as `distribution` with the same arguments."""
    path = folder / f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for place, content in distribution(name, version, site="", **changes).items():
            archive.writestr(zipfile.ZipInfo(place.lstrip("/"), (2020, 1, 1, 0, 0, 0)), content)
    return path


def write_layout(folder: Path, layers, config, *, media_type=MANIFEST, layer_types=None, diff_ids=None):
    """An OCI layout; `layers` are tars, stored with gzip unless they are pairs (stored bytes, tar)."""
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True, exist_ok=True)

    def put(content):
        digest = digest_of(content)
        (blobs / digest.removeprefix("sha256:")).write_bytes(content)
        return digest, len(content)

    stored = [item if isinstance(item, tuple) else (gzip.compress(item, 1, mtime=0), item) for item in layers]
    types = layer_types or [GZIP] * len(stored)
    listed = []
    for (packed, _), kind in zip(stored, types, strict=True):
        digest, size = put(packed)
        listed.append({"mediaType": kind, "digest": digest, "size": size})
    rootfs = {"type": "layers", "diff_ids": diff_ids or [digest_of(plain) for _, plain in stored]}
    digest, size = put(json.dumps({**config, "rootfs": rootfs}).encode())
    manifest = {
        "schemaVersion": 2,
        "mediaType": media_type,
        "config": {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": digest, "size": size},
        "layers": listed,
    }
    digest, size = put(json.dumps(manifest).encode())
    top = {"schemaVersion": 2, "manifests": [{"mediaType": media_type, "digest": digest, "size": size}]}
    (folder / "index.json").write_text(json.dumps(top))
    (folder / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')
    return f"oci:{folder}"


ENTRY_POINTS = "[vllm.platform_plugins]\nfl = vllm_plugin_fl:register\n"


@dataclass
class Case:
    """An image that is as locked; a test breaks one thing, and `findings` says what is found."""

    folder: Path
    base: dict = field(default_factory=lambda: {"usr/bin/python3": (b"\x7fELF", 0o755)})
    packages: dict = field(default_factory=dict)
    files: dict = field(default_factory=dict)
    env: list = field(default_factory=lambda: ["PATH=/usr/bin", "VLLM_PLUGINS=fl"])
    labels: dict = field(default_factory=dict)
    history: list = field(default_factory=list)
    config: dict = field(default_factory=dict)
    layout: dict = field(default_factory=dict)
    recipe: dict = field(default_factory=dict)
    inventory: tuple = ()
    image_base: bool = False
    recorded: bool = True
    builder: str = "oci"
    locked_base: bytes | None = None
    wheels: dict = field(default_factory=dict)
    today: date = date(2026, 6, 1)
    target: str = "release"
    observed: Observed | None = None
    not_started: str | None = None

    def __post_init__(self):
        self.add("torch", "2.13.0+cpu")
        self.add("numpy", "1.26.4")
        self.plugin = distribution("vllm-plugin-fl", "1.2.0", entry_points=ENTRY_POINTS)
        for key, value in {
            "title": "vllm-plugin-fl demo release",
            "version": "1.2.0",
            "revision": COMMIT,
            "created": CREATED,
        }.items():
            self.labels[LABELS + key] = value

    def add(self, name, version, **changes):
        """Lock and install a distribution."""
        self.packages[name] = version
        self.files.update(distribution(name, version, **changes))

    def install(self, name, version, **changes):
        """Install a distribution that is not locked."""
        self.files.update(distribution(name, version, **changes))

    def drop(self, start):
        """Take out every installed file whose path below site-packages starts so."""
        for path in [path for path in self.files if path.startswith(f"{SITE}/{start}")]:
            del self.files[path]

    def verification(self) -> Verification:
        tars = [tar_of(self.base), tar_of(self.files), tar_of(self.plugin)]
        config = {
            "os": "linux",
            "architecture": "amd64",
            "created": CREATED,
            "config": {"Env": self.env, "Labels": self.labels},
            "history": self.history,
            **self.config,
        }
        name = write_layout(self.folder, tars, config, **self.layout)
        subject = open_subject(name, None)
        locked = self._locked(subject, self.locked_base or tars[0])
        return Verification(
            subject=subject,
            view=read_files(subject, _unread(locked.base, subject), Silent()),
            recipe=self._recipe(),
            locked=locked,
            target=self.target,
            output=locked.outputs[0] if self.recorded else None,
            find_wheel=lambda sha256, filename: self.wheels.get(filename),
            today=self.today,
            observed=self.observed,
            not_started=self.not_started,
        )

    def findings(self, check=None):
        """Findings of one check, or of all after the recipe's waivers."""
        verification = self.verification()
        return list(CHECKS[check](verification)) if check else run_checks(verification)

    def errors(self, check=None):
        """`SUBJECT: MESSAGE` of every error."""
        found = self.findings(check)
        return [f"{item.subject}: {item.message}" for item in found if item.severity == "error"]

    def _recipe(self):
        values = {
            "schema": 1,
            "name": "demo",
            "summary": "a small image",
            "platform": "linux/amd64",
            "python": {"version": "3.11", "site_packages": f"/{SITE}"},
            "base": {"image": "quay.io/team/base:v1"} if self.image_base else {"debian": "bookworm"},
            "vllm": {"version": "0.28.0"},
            "targets": {"release": {}},
            "env": {"VLLM_PLUGINS": "fl"},
            "plugin": {"entry_points": ["vllm.platform_plugins"]},
            "image": {"repository": "example.org/demo", "tag": "demo-{target}"},
            **self.recipe,
        }
        return Recipe.model_validate(values)

    def _locked(self, subject, base):
        layer = LockedLayer(
            digest=subject.layers[0].digest,
            size=subject.layers[0].size,
            media_type=GZIP,
            diff_id=digest_of(base),
        )
        return LockedImage(
            recipe="sha256:" + "0" * 64,
            platform="linux/amd64",
            python="3.11",
            base=self._image_base(layer) if self.image_base else self._debian_base(layer),
            packages=tuple(
                LockedFile(
                    name=name,
                    version=version,
                    index="pypi",
                    filename=f"{name.replace('-', '_')}-{version}-py3-none-any.whl",
                    sha256=hashlib.sha256(name.encode()).hexdigest(),
                    size=1,
                )
                for name, version in self.packages.items()
            ),
            outputs=(self._output(subject),),
        )

    def _debian_base(self, layer):
        libc = DebianPackage(name="libc6", version="2.36", architecture="amd64")
        return LockedDebianBase(
            suite="bookworm", epoch=0, layer=layer, packages=(libc,), inventory=self.inventory
        )

    def _image_base(self, layer):
        return LockedImageBase(
            reference="quay.io/team/base:v1",
            digest="sha256:" + "1" * 64,
            digest_kind="index",
            manifest="sha256:" + "2" * 64,
            media_type=MANIFEST,
            config="sha256:" + "3" * 64,
            layers=(layer,),
            inventory=self.inventory,
        )

    def _output(self, subject):
        return Output(
            target="release",
            manifest=subject.manifest_digest,
            config=subject.content["config"]["digest"],
            layers=tuple(layer.digest for layer in subject.layers),
            diff_ids=tuple(layer.diff_id or "sha256:" + "4" * 64 for layer in subject.layers),
            revision=COMMIT,
            plugin=PluginRecord(
                version="1.2.0", filename="vllm_plugin_fl-1.2.0-py3-none-any.whl", sha256="5" * 64
            ),
            builder=self.builder,
            created=CREATED,
        )


@pytest.fixture
def case(tmp_path):
    """An image that is exactly as locked; see `Case`."""
    return Case(tmp_path / "layout")


@pytest.fixture
def carried():
    """`carried(name, version, **changes)`: a distribution in a base's inventory."""

    def make(name, version="1.0", **changes):
        location = f"/{SITE}/{name.replace('-', '_')}-{version}.dist-info"
        return BaseDistribution(**{"name": name, "version": version, "location": location, **changes})

    return make


@pytest.fixture
def link():
    """`link(target, hard=False)`: a link in a layer."""
    return Link


@pytest.fixture
def installed_files():
    """`installed_files(name, version, ...)`: what a distribution installs, by path."""
    return distribution


@pytest.fixture
def layout():
    """`layout(folder, layers, config, ...)`: writes an OCI layout and gives its name."""
    return write_layout


@pytest.fixture
def tar():
    """`tar(files)`: the bytes of a layer."""
    return tar_of


@pytest.fixture
def wheel(tmp_path):
    """`wheel(name, version, ...)`: a wheel file."""
    return lambda name, version, **changes: wheel_of(tmp_path / "wheels", name, version, **changes)


@pytest.fixture
def record():
    """`record(files, own path)`: a RECORD that fits the files."""
    return record_of
