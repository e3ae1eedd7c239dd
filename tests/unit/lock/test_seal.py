from __future__ import annotations

import pytest
import yaml

from flbuild.errors import LockStaleError
from flbuild.image import load_inputs
from flbuild.lock.check import stale
from flbuild.lock.io import dump_lock, parse_lock
from flbuild.lock.model import (
    GitSource,
    Lock,
    LockedDebianBase,
    LockedFile,
    LockedImage,
    LockedLayer,
    LockedSource,
    Output,
    PluginRecord,
    SourceFile,
)
from flbuild.lock.seal import seal_of
from flbuild.recipe.canonical import canonical_hash
from flbuild.recipe.load import load_recipe

SHA = "1" * 64
DIGEST = f"sha256:{SHA}"


def a_file(name, version="1.0", index="pypi"):
    filename = f"{name}-{version}-py3-none-any.whl"
    return LockedFile(
        name=name,
        version=version,
        index=index,
        filename=filename,
        sha256=SHA,
        size=1,
        requires_python=">=3.9",
    )


def an_entry(recipe):
    source = SourceFile(index="pypi", filename="vllm-0.28.0.tar.gz", sha256=SHA, size=1)
    vllm = LockedSource(
        name="vllm",
        version="0.28.0+empty",
        source=source,
        env={"VLLM_TARGET_DEVICE": "empty"},
        filename="vllm-0.28.0+empty-py3-none-any.whl",
        sha256=SHA,
        size=1,
    )
    layer = LockedLayer(digest=DIGEST, size=1, media_type="application/x", diff_id=DIGEST)
    base = LockedDebianBase(
        suite="bookworm", requested=("python3",), epoch=1, layer=layer, packages=(), glibc="2.36"
    )
    return LockedImage(
        recipe=canonical_hash(recipe),
        platform="linux/amd64",
        python="3.11",
        base=base,
        sources=(vllm,),
        packages=(
            a_file("numpy", "1.26.4"),
            a_file("sympy"),
            a_file("torch", "2.13.0+cpu", index="pytorch-cpu"),
        ),
        targets={"ci": (a_file("pytest", "8.0"),)},
    )


@pytest.fixture
def edited(demo):
    """`edited(change)`: what `stale` says when `change` was made to the entry's YAML in an editor."""
    recipe = load_recipe(demo.recipe_path)
    text = dump_lock(Lock(images={"demo": an_entry(recipe)}))

    def after(change):
        data = yaml.safe_load(text)
        change(data["images"]["demo"])
        path = demo.project.lock_path
        path.write_text(yaml.safe_dump(data, sort_keys=False))
        return stale(recipe, parse_lock(path.read_text(), path))

    return after


def flipped(digest):
    return digest[:-1] + "2"


@pytest.mark.parametrize(
    "change",
    [
        lambda entry: entry["packages"][1].update(sha256=flipped(SHA)),
        lambda entry: entry["packages"][1].update(size=2),
        lambda entry: entry["packages"][1].update(requires_python=">=3.5"),
        lambda entry: entry["packages"][1].update(filename="sympy-1.0-py2.py3-none-any.whl"),
        lambda entry: entry["packages"][1].update(version="1.1", filename="sympy-1.1-py3-none-any.whl"),
        lambda entry: entry["packages"].pop(1),
        lambda entry: entry["packages"].append(a_file("six").model_dump()),
        lambda entry: entry["targets"]["ci"][0].update(sha256=flipped(SHA)),
        lambda entry: entry["sources"][0].update(env={"VLLM_TARGET_DEVICE": "cpu"}),
        lambda entry: entry["sources"][0].update(sha256=flipped(SHA)),
        lambda entry: entry["sources"][0]["source"].update(sha256=flipped(SHA)),
        lambda entry: entry["base"].update(epoch=2),
        lambda entry: entry["base"].update(glibc="2.40"),
        lambda entry: entry["base"]["layer"].update(digest=flipped(DIGEST)),
        lambda entry: entry["base"]["layer"].update(diff_id=flipped(DIGEST)),
        lambda entry: entry["base"]["layer"].update(size=2),
    ],
)  # fmt: skip
def test_a_pin_of_any_kind_that_was_edited_by_hand_is_seen_without_network(edited, change):
    (difference,) = edited(change)
    assert "by hand" in difference


def test_an_entry_that_nobody_edited_agrees(edited):
    assert edited(lambda entry: None) == []


def test_a_recorded_output_breaks_no_seal(demo):
    image = an_entry(load_recipe(demo.recipe_path))
    plugin = PluginRecord(version="1", filename="p-1-py3-none-any.whl", sha256=SHA)
    output = Output(
        target="release",
        manifest=DIGEST,
        config=DIGEST,
        layers=(DIGEST,),
        diff_ids=(DIGEST,),
        revision="1" * 40,
        plugin=plugin,
        builder="oci",
        created="2026-01-01T00:00:00Z",
    )
    assert seal_of(image.model_copy(update={"outputs": (output,)})) == seal_of(image)


def test_no_build_starts_from_an_entry_that_was_edited_by_hand(demo, edited):
    edited(lambda entry: entry["packages"][1].update(size=2))
    with pytest.raises(LockStaleError, match="by hand"):
        load_inputs(demo.project, "demo")


def test_b71_the_seal_of_an_entry_is_the_same_in_every_version():
    source = GitSource(git="https://git.example/x", commit="2" * 40, archive_sha256=SHA)
    built = LockedSource(
        name="x", version="1", source=source, filename="x-1-py3-none-any.whl", sha256=SHA, size=3
    )
    image = LockedImage(
        recipe=DIGEST, platform="linux/arm64", python="3.11", sources=(built,), packages=(a_file("y"),)
    )
    assert seal_of(image) == "sha256:e1347897c03c5c12377ef87db8d23509c55c680ebecabfb0c421cd2407c49ccb"
