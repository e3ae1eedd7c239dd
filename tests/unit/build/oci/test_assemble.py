from __future__ import annotations

import json
import os
import time
from dataclasses import replace

import pytest

from flbuild.build.oci.assemble import OciBuilder, cached_size, interpreter_of
from flbuild.build.oci.compress import compress
from flbuild.errors import BuildError, HostError
from flbuild.lock.model import DebianPackage, LockedDebianBase, LockedLayer
from flbuild.plan.model import PlannedLayer, PlannedUnresolved
from flbuild.progress import Silent

CONFIG = (
    b'{"architecture":"amd64","os":"linux","config":{"Env":["PATH=/bin"]},"history":[{"comment":"base"}]}'
)


class Bases:
    """A registry's config, and one file as the layer of a Debian base."""

    def __init__(self, layer=None):
        self.layer = layer

    def debian_layer(self, base):
        return self.layer

    def image_config(self, base):
        return CONFIG


@pytest.fixture
def two_layers(wheels):
    one = wheels.add("one", {"one/__init__.py": b"x = {1, 2, 3}\n"})
    two = wheels.add("two", {"two.py": b"1"})
    plugin = wheels.add("plugin", {"plugin.py": b"1"})
    return (
        PlannedLayer("remove", "remove", "out of the base: old", whiteouts=("/site/old.py",)),
        PlannedLayer("dependencies", "wheels", "why", (one, two)),
        PlannedLayer("plugin", "wheels", "last", (plugin,)),
    )


@pytest.fixture
def build(tmp_path, wheels):
    def run(plan, *, cache="cache", bases=None):
        return OciBuilder(tmp_path / cache, bases or Bases()).build(plan, wheels.inputs, Silent())

    return run


def test_layers_are_the_bases_and_then_the_plans(build, wheels, two_layers):
    image = build(wheels.plan(*two_layers))
    manifest, config = json.loads(image.manifest), json.loads(image.config)
    assert [item["digest"] for item in manifest["layers"]] == [layer.digest for layer in image.layers]
    assert config["rootfs"]["diff_ids"] == [layer.diff_id for layer in image.layers]
    assert [layer.from_base for layer in image.layers] == [True, False, False, False]
    assert image.base_reference == "quay.io/base/image:v1"


def test_layers_of_a_registry_base_are_named_and_never_had(build, wheels, two_layers):
    image = build(wheels.plan(*two_layers))
    base = image.layers[0]
    assert (base.path, base.media_type) == (None, "application/vnd.oci.image.layer.v1.tar+gzip")
    assert json.loads(image.manifest)["layers"][0]["digest"] == base.digest


def test_every_layer_has_a_line_of_history(build, wheels, two_layers):
    history = json.loads(build(wheels.plan(*two_layers)).config)["history"]
    assert [item["comment"] for item in history] == ["base", "out of the base: old", "why", "last"]
    assert history[1]["created"] == "2026-09-10T00:26:40Z"


def shuffled(layers):
    return tuple(replace(layer, wheels=tuple(reversed(layer.wheels))) for layer in layers)


def test_the_digest_depends_on_the_plan_alone(build, wheels, two_layers, tmp_path, monkeypatch):
    """Another order of wheels, cache, folder, umask, time zone, locale, hash seed, epoch and day."""
    first = build(wheels.plan(*two_layers))
    moved = tmp_path / "moved"
    moved.mkdir()
    for sha256, path in list(wheels.files.items()):
        wheels.files[sha256] = moved / path.name
        (moved / path.name).write_bytes(path.read_bytes())
    for name, value in {
        "TZ": "Asia/Kathmandu",
        "LC_ALL": "tr_TR.UTF-8",
        "PYTHONHASHSEED": "7",
        "SOURCE_DATE_EPOCH": "5",
        "USER": "somebody",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(time, "time", lambda: 1.0)
    monkeypatch.chdir(moved)
    before = os.umask(0o077)
    try:
        second = build(wheels.plan(*shuffled(two_layers)), cache="second")
    finally:
        os.umask(before)
    assert second.manifest == first.manifest
    assert second.config == first.config
    for one, two in zip(first.layers[1:], second.layers[1:], strict=True):
        assert one.path != two.path
        assert one.path.read_bytes() == two.path.read_bytes()


def test_a_full_cache_and_an_empty_one_give_the_same_digest(build, wheels, two_layers):
    plan = wheels.plan(*two_layers)
    assert (
        build(plan).manifest_digest == build(plan).manifest_digest == build(plan, cache="b").manifest_digest
    )


def test_another_plugin_changes_its_layer_alone(build, wheels, two_layers):
    first = build(wheels.plan(*two_layers))
    newer = wheels.add("plugin", {"plugin.py": b"2"}, version="2.0")
    changed = (*two_layers[:-1], replace(two_layers[-1], wheels=(newer,)))
    second = build(wheels.plan(*changed, epoch=1_799_999_999, revision="1" * 40))
    assert [layer.digest for layer in second.layers[:-1]] == [layer.digest for layer in first.layers[:-1]]
    assert second.layers[-1].digest != first.layers[-1].digest


def test_a_cached_layer_needs_no_wheel(build, wheels, two_layers, monkeypatch):
    plan = wheels.plan(*two_layers)
    first = build(plan)
    monkeypatch.setattr("flbuild.build.oci.contents.install_wheel", lambda *_: pytest.fail("unpacked"))
    monkeypatch.setattr("flbuild.build.oci.conflicts.ZipFile", lambda *_: pytest.fail("opened"))
    assert build(plan) == first


def test_wheels_of_two_layers_that_conflict_are_refused(build, wheels, two_layers):
    thief = wheels.add("thief", {"one/__init__.py": b"mine"})
    layers = (*two_layers[:-1], PlannedLayer("plugin", "wheels", "", (thief,)))
    with pytest.raises(BuildError, match=r"one and thief both install one/__init__\.py"):
        build(wheels.plan(*layers))


@pytest.mark.parametrize("change", [{"base": None}, {"unresolved": (PlannedUnresolved("x", "gone"),)}])
def test_a_plan_with_something_missing_is_not_built(build, wheels, two_layers, change):
    plan = replace(wheels.plan(*two_layers), **change)
    with pytest.raises(BuildError, match="unresolved inputs"):
        build(plan)


def test_what_is_cached_is_known_without_building(build, wheels, two_layers, tmp_path):
    plan = wheels.plan(*two_layers)
    assert cached_size(plan, plan.layers[1], tmp_path / "cache") is None
    image = build(plan)
    assert cached_size(plan, plan.layers[1], tmp_path / "cache") == image.layers[2].size


@pytest.fixture
def debian(tmp_path):
    path = tmp_path / "base.tar.gz"
    source = tmp_path / "base.tar"
    source.write_bytes(b"root file system")
    with source.open("rb") as plain, path.open("wb") as packed:
        done = compress(plain, packed)
    layer = LockedLayer(
        digest=done.digest,
        size=done.size,
        media_type="application/vnd.oci.image.layer.v1.tar+gzip",
        diff_id=done.diff_id,
    )
    packages = (
        DebianPackage(name="bash", version="5.2", architecture="amd64"),
        DebianPackage(name="python3.11-minimal", version="3.11.2-6", architecture="amd64"),
    )
    return LockedDebianBase(suite="bookworm", epoch=1767225600, layer=layer, packages=packages), path


def test_a_debian_base_is_a_layer_of_the_image(build, wheels, two_layers, debian):
    base, path = debian
    image = build(wheels.plan(*two_layers, base=base), bases=Bases(path))
    assert (image.layers[0].path, image.layers[0].from_base) == (path, True)
    assert image.base_reference is None
    history = json.loads(image.config)["history"]
    assert history[0] == {
        "created": "2026-01-01T00:00:00Z",
        "created_by": "flbuild base",
        "comment": "Debian bookworm, 2 packages",
    }


def with_bytecode(plan):
    return replace(plan, scheme=replace(plan.scheme, bytecode=True))


def test_byte_code_depends_on_the_bases_python_and_not_on_the_rest_of_it(wheels, two_layers, debian):
    base, _ = debian

    def interpreter(**versions):
        packages = tuple(
            item.model_copy(update={"version": versions.get(item.name.partition("3")[0], item.version)})
            for item in base.packages
        )
        moved = base.model_copy(update={"packages": packages})
        return interpreter_of(with_bytecode(wheels.plan(*two_layers, base=moved)))

    assert interpreter() == interpreter(bash="5.3")
    assert interpreter() != interpreter(python="3.11.2-7")
    assert interpreter_of(wheels.plan(*two_layers, base=base)) is None
    assert interpreter_of(with_bytecode(wheels.plan(*two_layers))) is None


def test_planned_byte_code_is_never_left_out_in_silence(build, wheels, two_layers, debian, monkeypatch):
    """An image that depends on the machine it was built on would break its promise."""
    base, path = debian
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(HostError, match="cannot run the amd64 interpreter"):
        build(with_bytecode(wheels.plan(*two_layers, base=base)), bases=Bases(path))
