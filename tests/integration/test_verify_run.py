"""What `verify image --run` sees in containers that do not work: no driver, broken packages, no Python."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
from checkout import REPOSITORY
from cpu_image import CpuImage
from docker_engine import Engine
from stand_ins.bases import Layer
from stand_ins.packages import distribution

from flbuild.build.model import Blob
from flbuild.build.oci.config import canonical_json, make_manifest
from flbuild.build.oci.layout import read_layout, write_layout
from flbuild.progress import Silent
from flbuild.recipe.load import load_recipe
from flbuild.recipe.model import Recipe
from flbuild.registry.client import RegistryClient
from flbuild.verify.run.container import DidNotStart, observe
from flbuild.verify.run.drivers import load_drivers
from flbuild.verify.run.observed import Observed
from flbuild.verify.subject import open_subject

SITE = "usr/local/lib/python3.11/dist-packages"
GZIP = "application/vnd.oci.image.layer.v1.tar+gzip"

Look = Callable[..., Observed]

NEEDS_DRIVER = b"import ctypes\nctypes.CDLL('libascend_hal.so')\n"
NEEDS_TOOLKIT = b"import ctypes\nctypes.CDLL('libhccl.so')\n"


@pytest.fixture
def look(
    cpu_image: CpuImage,
    engine: Engine,
    client: RegistryClient,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Look:
    """`look(recipe, tree)`: what a container shows of the cpu image's base with more files in it."""
    monkeypatch.setenv("DOCKER_HOST", engine.address)

    def run(recipe: Recipe, tree: Mapping[str, bytes]) -> Observed:
        folder = tmp_path / "layout"
        _write(folder, cpu_image.layout, tree)
        return observe(open_subject(f"oci:{folder}", client), recipe, Silent())

    return run


def _write(folder: Path, cpu: Path, tree: Mapping[str, bytes]) -> None:
    whole = read_layout(cpu)
    layer = Layer.of(tree)
    path = folder.with_name("layer")
    path.write_bytes(layer.content)
    digest = f"sha256:{sha256(layer.content).hexdigest()}"
    added = Blob(digest, len(layer.content), GZIP, layer.diff_id, path, from_base=False)
    layers = (whole.layers[0], added)
    config = json.loads(whole.config)
    config["rootfs"]["diff_ids"] = [item.diff_id for item in layers]
    config.pop("history", None)
    raw = canonical_json(config)
    name = f"sha256:{sha256(raw).hexdigest()}"
    manifest = make_manifest(raw, name, layers)
    image = replace(
        whole,
        config=raw,
        config_digest=name,
        manifest=manifest,
        manifest_digest=f"sha256:{sha256(manifest).hexdigest()}",
        layers=layers,
    )
    write_layout(image, folder, "1", _no_fetch)


def _no_fetch(layer: Blob, path: Path) -> None:
    raise AssertionError("every layer is on this machine")


@pytest.fixture
def recipe() -> Recipe:
    """The cpu recipe as one of a CANN base that provides torch-npu."""
    cpu = load_recipe(REPOSITORY / "recipes" / "cpu.yaml")
    base = cpu.base.model_copy(update={"components": {"cann": "9.0.0"}, "provides": {"torch-npu": "1.0"}})
    return cpu.model_copy(update={"base": base})


@pytest.mark.parametrize(
    ("module", "explained"),
    [(NEEDS_DRIVER, "libascend_hal.so"), (NEEDS_TOOLKIT, None)],
    ids=["driver-absent", "broken"],
)
def test_i29_the_dynamic_linkers_own_words_tell_an_absent_driver_from_a_broken_package(
    look: Look, recipe: Recipe, module: bytes, explained: str | None
) -> None:
    seen = look(recipe, installed("torch-npu", {"torch_npu/__init__.py": module}))
    (found,) = seen.imports
    assert found.error
    assert load_drivers()["cann"].explains(found.error) == explained
    assert "libascend_hal.so" in seen.absent_drivers


def test_a_source_tree_in_the_image_is_seen(look: Look, recipe: Recipe) -> None:
    editable = installed("torch-npu", {"__editable__.torch_npu.pth": b"/src\n"})
    seen = look(recipe, {"src/torch_npu/__init__.py": b"", **editable})
    assert "/src" in seen.import_path
    assert [item.found for item in seen.imports] == ["/src/torch_npu/__init__.py"]


def test_an_image_without_the_recipes_interpreter_does_not_start(look: Look, recipe: Recipe) -> None:
    python = recipe.python.model_copy(update={"executable": "/opt/nowhere/python3"})
    with pytest.raises(DidNotStart, match="/opt/nowhere/python3"):
        look(recipe.model_copy(update={"python": python}), {"etc/note": b""})


def test_nothing_is_left_in_the_engine(look: Look, recipe: Recipe, engine: Engine) -> None:
    before = {image.id for image in engine.client.images.list(all=True)}
    look(recipe, installed("torch-npu", {"torch_npu/__init__.py": b""}))
    assert {image.id for image in engine.client.images.list(all=True)} == before
    assert engine.client.containers.list(all=True) == []


def installed(name: str, files: Mapping[str, bytes]) -> dict[str, bytes]:
    """A distribution's files by their place in the image."""
    return {f"{SITE}/{path}": data for path, data in distribution(name, "1.0", files).items()}
