"""Every field of the lock, changed by hand: refused, or named here as harmless with the reason."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from pydantic import BaseModel

from flbuild.errors import LockStaleError
from flbuild.lock.io import dump_lock, parse_lock
from flbuild.lock.model import (
    BaseDistribution,
    DebianPackage,
    GitSource,
    Lock,
    LockedDebianBase,
    LockedFile,
    LockedImage,
    LockedImageBase,
    LockedLayer,
    LockedSource,
    Output,
    PluginRecord,
    SourceFile,
    Unresolved,
)
from flbuild.lock.seal import require_sealed

SHA = "1" * 64
DIGEST = f"sha256:{SHA}"

HARMLESS = {
    Output: "a record of what was built: `verify digest` proves it against the image itself",
    PluginRecord: "part of an output",
}
LAYER = LockedLayer(digest=DIGEST, size=1, media_type="application/x", diff_id=DIGEST)
CARRIED = BaseDistribution(name="old", version="1", location="/s/old", editable=True, files=("/s/old/a",))
FILE = LockedFile(
    name="six",
    version="1.0",
    index="pypi",
    filename="six-1.0-py3-none-any.whl",
    sha256=SHA,
    size=1,
    requires_python=">=3.9",
)


def a_source(source: SourceFile | GitSource) -> LockedSource:
    return LockedSource(
        name="x",
        version="1",
        source=source,
        env={"A": "b"},
        filename="x-1-py3-none-any.whl",
        sha256=SHA,
        size=1,
    )


def an_entry(base: LockedDebianBase | LockedImageBase, source: SourceFile | GitSource) -> LockedImage:
    plugin = PluginRecord(version="1", filename="p-1-py3-none-any.whl", sha256=SHA, archive_sha256=SHA)
    output = Output(
        target="release",
        reference="r.example/x:1",
        manifest=DIGEST,
        config=DIGEST,
        layers=(DIGEST,),
        diff_ids=(DIGEST,),
        revision="1" * 40,
        plugin=plugin,
        builder="oci",
        created="2026-01-01T00:00:00Z",
    )
    return LockedImage(
        recipe=DIGEST,
        platform="linux/amd64",
        python="3.11",
        base=base,
        sources=(a_source(source),),
        packages=(FILE,),
        targets={"ci": (FILE,)},
        unresolved=(Unresolved(name="y", version="1", source="pypi", reason="it could not be reached"),),
        outputs=(output,),
    )


def a_lock() -> Lock:
    """A lock that holds an instance of every model, with every field set."""
    debian = LockedDebianBase(
        suite="bookworm",
        requested=("python3",),
        epoch=1,
        layer=LAYER,
        packages=(DebianPackage(name="zlib1g", version="1", architecture="amd64"),),
        inventory=(CARRIED,),
        glibc="2.36",
    )
    image = LockedImageBase(
        reference="quay.io/team/base:v1",
        digest=DIGEST,
        digest_kind="index",
        manifest=DIGEST,
        media_type="application/x",
        config=DIGEST,
        layers=(LAYER,),
        inventory=(CARRIED,),
        glibc="2.36",
    )
    sdist = SourceFile(index="pypi", filename="x-1.tar.gz", sha256=SHA, size=1)
    git = GitSource(git="https://git.example/x", commit="1" * 40, tag="v1", archive_sha256=SHA)
    return Lock(
        build_tools=(FILE,), images={"debian": an_entry(debian, sdist), "image": an_entry(image, git)}
    )


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from models_in(argument)


def all_models(model: type[BaseModel]) -> set[type[BaseModel]]:
    found = {model}
    for field in model.model_fields.values():
        for inner in models_in(field.annotation):
            found |= all_models(inner)
    return found


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any, str]]:
    """Path, model and name of every field of every model inside `value`."""
    if isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield (*path, name), type(value), name
            yield from places(getattr(value, name), (*path, name))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from places(item, (*path, key))
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            yield from places(item, (*path, index))


def changed(value: Any) -> Any:
    """Another value of the same kind, as somebody with an editor would write it."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, str):
        return f"{value[:-1]}{'2' if value[-1] != '2' else '3'}"
    if isinstance(value, list):
        return value[1:]
    if isinstance(value, dict):
        return {}
    raise AssertionError(f"no other value for {value!r}")


LOCK = a_lock()
PLACES = {
    (model.__name__, name, path[1] if path[0] == "images" and len(path) > 1 else ""): (path, model)
    for path, model, name in places(LOCK)
}


def test_every_field_of_every_model_is_tampered_with():
    fields = {(model.__name__, name) for model in all_models(Lock) for name in model.model_fields}
    assert fields == {key[:2] for key in PLACES}


@pytest.mark.parametrize("place", PLACES, ids=".".join)
def test_a_field_that_was_edited_by_hand_is_refused(place):
    path, model = PLACES[place]
    data = yaml.safe_load(dump_lock(LOCK))
    holder = data
    for step in path[:-1]:
        holder = holder[step]
    before = copy.deepcopy(holder[path[-1]])
    holder[path[-1]] = changed(before)
    assert holder[path[-1]] != before

    try:
        lock = parse_lock(yaml.safe_dump(data), Path("images.lock"))
        require_sealed(lock, lock.images)
    except LockStaleError:
        return
    if place[:2] == ("Lock", "images"):
        assert not lock.images, "an entry that is gone is told by its recipe"
    else:
        assert model in HARMLESS or place[1] == "outputs"


def test_writing_the_lock_again_seals_no_edit():
    data = yaml.safe_load(dump_lock(LOCK))
    data["images"]["debian"]["packages"][0]["size"] = 7
    data["build_tools"][0]["size"] = 7
    edited = parse_lock(yaml.safe_dump(data), Path("images.lock"))
    again = parse_lock(dump_lock(edited), Path("images.lock"))
    with pytest.raises(LockStaleError, match=r"build_tools.*\n.*debian"):
        require_sealed(again, again.images)
