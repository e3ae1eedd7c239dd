"""A small project with one recipe, an index that has what it needs, and stand-ins for bases and builds."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from uv import find_uv_bin

from flbuild.errors import UnreachableError
from flbuild.files import sha256_file
from flbuild.index.client import IndexClient
from flbuild.index.git import GitStore
from flbuild.index.store import FileStore
from flbuild.lock.entry import Options, Services
from flbuild.lock.io import read_lock, write_lock
from flbuild.lock.model import (
    BaseDistribution,
    Lock,
    LockedDebianBase,
    LockedFile,
    LockedImageBase,
    LockedLayer,
)
from flbuild.lock.resolve import Resolver
from flbuild.lock.tools import tool_requirements
from flbuild.lock.update import lock_images
from flbuild.progress import Silent
from flbuild.project import Project
from flbuild.recipe.model import DebianBase
from flbuild.wheel.model import BuiltWheel

DIGEST = "sha256:" + "1" * 64

RECIPE = """\
schema: 1
name: demo
summary: a small image
platform: linux/amd64
python: {version: "3.11", site_packages: /usr/lib/python3/dist-packages}
base: {debian: bookworm, packages: [python3]}
vllm: {version: 0.28.0, device: empty}
packages:
  - {name: torch, version: 2.13.0+cpu, index: pytorch-cpu}
  - {name: numpy, version: 1.26.4}
forbid: [triton, "nvidia-*"]
targets:
  release: {}
  ci: {packages: [pytest]}
image: {repository: example.org/team/demo, tag: "demo-{target}"}
"""


def locked_tool(requirement):
    name, _, version = requirement.partition(",")[0].partition(">=")
    version = version or "1.0"
    filename = f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
    return LockedFile(name=name, version=version, index="pypi", filename=filename, sha256="1" * 64, size=1)


@dataclass
class FakeBases:
    """Bases as a registry would show them; `reachable` and the rest can be changed by a test."""

    reachable: bool = True
    digest: str = DIGEST
    digest_kind: str = "image"
    glibc: str | None = "2.36"
    inventory: tuple[BaseDistribution, ...] = ()
    locked: int = 0
    relisted: int = 0

    def lock(self, recipe):
        self.locked += 1
        if not self.reachable:
            raise UnreachableError("the registry did not answer")
        layer = LockedLayer(digest=self.digest, size=1, media_type="application/x", diff_id=self.digest)
        if isinstance(recipe.base, DebianBase):
            return LockedDebianBase(
                suite=recipe.base.debian,
                requested=tuple(sorted(recipe.base.packages)),
                epoch=1,
                layer=layer,
                packages=(),
                inventory=self.inventory,
                glibc=self.glibc,
            )
        return LockedImageBase(
            reference=recipe.base.image,
            digest=self.digest,
            digest_kind=self.digest_kind,
            manifest=self.digest,
            media_type="application/x",
            config=self.digest,
            layers=(layer,),
            inventory=self.inventory,
            glibc=self.glibc,
        )

    def relist(self, base, platform):
        self.relisted += 1
        return base.model_copy(update={"inventory": self.inventory})


@dataclass
class FakeBuilder:
    """Makes the wheel that a test prepared for a name, instead of building."""

    wheels: dict[str, Path] = field(default_factory=dict)
    builds: list[str] = field(default_factory=list)

    def build_source(self, name, version, source, env, tools):
        self.builds.append(name)
        path = self.wheels[name]
        return BuiltWheel(path, name, version, sha256_file(path), path.stat().st_size)

    def build_locked(self, locked, tools):
        return self.wheels[locked.name]


@dataclass
class Demo:
    """The project and everything around it."""

    project: Project
    settings: object
    index: object
    make_wheel: object
    bases: FakeBases
    builder: FakeBuilder
    progress: Silent

    @property
    def recipe_path(self):
        return self.project.root / "recipes" / "demo.yaml"

    def edit(self, old, new):
        text = self.recipe_path.read_text()
        assert old in text
        self.recipe_path.write_text(text.replace(old, new))

    def publish(self, name, version, *, index="pypi", **options):
        """Put a wheel on an index."""
        return self.index.add(
            self.make_wheel(self.project.root.parent / index, name, version, **options), index
        )

    def build_vllm(self, *requires):
        """What vLLM's build for the empty device gives."""
        folder = self.project.root.parent / "built"
        self.builder.wheels["vllm"] = self.make_wheel(folder, "vllm", "0.28.0+empty", requires=requires)

    def services(self, *, offline=False):
        client = IndexClient(self.settings, self.progress, offline=offline, wait=0)
        store = FileStore(self.settings, client, self.progress)
        git = GitStore(self.settings, offline=offline)
        resolver = Resolver(self.settings, offline=offline)
        return Services(client, store, git, resolver, self.bases, self.builder, self.progress)

    def lock(self, *, offline=False, dry_run=False, **options):
        options["upgrade"] = frozenset(options.get("upgrade", ()))
        services = self.services(offline=offline)
        lock = lock_images(self.project, ["demo"], Options(**options), services, dry_run=dry_run)
        return lock.images["demo"]

    def read(self):
        return read_lock(self.project.lock_path)

    def text(self):
        return self.project.lock_path.read_text()


@pytest.fixture(scope="session")
def uv_interpreter(tmp_path_factory):
    """A uv cache that knows this interpreter, so that no test has to ask it again."""
    folder = tmp_path_factory.mktemp("uv")
    (folder / "nothing.in").touch()
    command = [find_uv_bin(), "pip", "compile", "nothing.in", "--no-index", "--no-config", "--quiet"]
    options = ["--python", sys.executable, "--cache-dir", str(folder / "cache")]
    subprocess.run([*command, *options], cwd=folder, check=True, capture_output=True)
    return folder / "cache"


@pytest.fixture
def warm_settings(make_settings, uv_interpreter):
    """`make_settings` with that cache."""

    def make(**options):
        settings = make_settings(**options)
        if not (settings.cache_dir / "uv").exists():
            shutil.copytree(uv_interpreter, settings.cache_dir / "uv")
        return settings

    return make


@pytest.fixture
def demo(tmp_path, fake_index, make_wheel, warm_settings):
    """A project that locks: `demo.lock(...)`, `demo.edit(...)`, `demo.publish(...)`."""
    root = tmp_path / "project"
    (root / "recipes").mkdir(parents=True)
    (root / "recipes" / "demo.yaml").write_text(RECIPE)
    settings = warm_settings(
        pypi=fake_index.url(),
        pytorch_cpu=fake_index.url("pytorch-cpu"),
        flagos="http://127.0.0.1:9/simple",
    )
    demo = Demo(Project(root), settings, fake_index, make_wheel, FakeBases(), FakeBuilder(), Silent())
    # Most tests are not about build tools: they are locked already, and nothing asks for other ones.
    write_lock(demo.project.lock_path, Lock(build_tools=tuple(map(locked_tool, tool_requirements()))))
    sdist = tmp_path / "vllm-0.28.0.tar.gz"
    sdist.write_bytes(b"vllm's sources")
    fake_index.add(sdist)
    demo.build_vllm("numpy", "regex", "torch==2.13.0")
    demo.publish("torch", "2.13.0+cpu", index="pytorch-cpu", requires=["sympy"])
    for name, version in [
        ("numpy", "1.26.4"),
        ("numpy", "2.0"),
        ("regex", "1.0"),
        ("sympy", "1.0"),
        ("pytest", "8.0"),
        ("ruff", "1.0"),
    ]:
        demo.publish(name, version)
    return demo
