from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest

from flbuild.build.oci.cache import LayerCache
from flbuild.build.oci.layers import LayerMaker, layer_key
from flbuild.errors import BuildError
from flbuild.plan.model import PlannedLayer
from flbuild.progress import Silent

SITE = "usr/local/lib/python3.11/dist-packages"


@pytest.fixture
def make(tmp_path, scheme, wheels, read_layer):
    """`make(wheel, ..., interpreter=None)`: the members of the layer of some wheels."""

    def run(*planned, interpreter=None, cache="cache"):
        maker = LayerMaker(LayerCache(tmp_path / cache), scheme, Silent())
        give = (lambda: interpreter) if interpreter else None
        layer = PlannedLayer("demo", "wheels", "", planned)
        blob = maker.make(layer, wheels.files, give, "python" if interpreter else None)
        return read_layer(blob.path)

    return run


def record_of(members, name):
    text = members[f"{SITE}/{name}-1.0.dist-info/RECORD"][1].decode()
    return {row[0]: row[1:] for row in csv.reader(io.StringIO(text))}


def test_a_layer_holds_the_files_of_its_wheels(make, wheels):
    members = make(wheels.add("one", {"one.py": b"1"}), wheels.add("two", {"two/__init__.py": b"2"}))
    assert members[f"{SITE}/one.py"][1] == b"1"
    assert members[f"{SITE}/two/__init__.py"][1] == b"2"


def test_large_files_are_whole(make, wheels):
    large = bytes(range(256)) * 8192
    assert make(wheels.add("one", {"lib/large.so": large}))[f"{SITE}/lib/large.so"][1] == large


def test_byte_code_is_in_the_layer_and_in_the_record(make, wheels, interpreter):
    members = make(wheels.add("one", {"one.py": b"1"}), interpreter=interpreter)
    assert members[f"{SITE}/__pycache__/one.cpython-311.pyc"][0].isfile()
    assert "__pycache__/one.cpython-311.pyc" in record_of(members, "one")


def test_a_record_names_exactly_what_is_there(make, wheels, interpreter):
    members = make(wheels.add("one", {"one.py": b"1", "x/y.py": b"2"}), interpreter=interpreter)
    files = {name.removeprefix(f"{SITE}/") for name, (member, _) in members.items() if member.isfile()}
    assert set(record_of(members, "one")) == files


def test_a_file_of_two_distributions_is_written_once_and_recorded_by_both(make, wheels, interpreter):
    shared = {"ns/__init__.py": b""}
    members = make(
        wheels.add("one", {**shared, "ns/a.py": b""}),
        wheels.add("two", {**shared, "ns/b.py": b""}),
        interpreter=interpreter,
    )
    for name in ("one", "two"):
        assert {"ns/__init__.py", "ns/__pycache__/__init__.cpython-311.pyc"} <= set(record_of(members, name))
    assert "ns/b.py" not in record_of(members, "one")


def test_conflicting_wheels_are_refused(make, wheels):
    with pytest.raises(BuildError, match=r"one and two both install .*same\.py"):
        make(wheels.add("one", {"same.py": b"1"}), wheels.add("two", {"same.py": b"2"}))


def test_a_wheel_without_a_hash_is_refused(make, wheels):
    with pytest.raises(BuildError, match=r"one 1\.0 has no locked file"):
        make(replace(wheels.add("one", {"one.py": b""}), sha256=None))


def test_a_layer_is_made_once(make, wheels, monkeypatch):
    wheel = wheels.add("one", {"one.py": b""})
    first = make(wheel)
    monkeypatch.setattr("flbuild.build.oci.contents.install_wheel", lambda *_: pytest.fail("made again"))
    assert make(wheel).keys() == first.keys()


def test_a_layer_of_whiteouts(tmp_path, scheme, read_layer):
    maker = LayerMaker(LayerCache(tmp_path), scheme, Silent())
    layer = PlannedLayer("remove", "remove", "", whiteouts=("/site/a.py",))
    assert list(read_layer(maker.make(layer, {}, None, None).path)) == ["site/.wh.a.py"]


def test_the_key_knows_everything_that_decides_the_bytes(wheels, scheme):
    one, two = wheels.add("one", {"one.py": b""}), wheels.add("two", {"two.py": b""})
    layer = PlannedLayer("demo", "wheels", "why", (one, two))
    key = layer_key(layer, scheme, "python 3.11.2")
    same = [replace(layer, wheels=(two, one)), replace(layer, id="other", reason="because")]
    assert {layer_key(item, scheme, "python 3.11.2") for item in same} == {key}
    different = [
        layer_key(layer, scheme, None),
        layer_key(layer, scheme, "python 3.11.3"),
        layer_key(layer, replace(scheme, executable="/usr/bin/python3.11"), "python 3.11.2"),
        layer_key(replace(layer, wheels=(one,)), scheme, "python 3.11.2"),
        layer_key(replace(layer, wheels=(one, replace(two, requested=True))), scheme, "python 3.11.2"),
        layer_key(replace(layer, wheels=(one, replace(two, sha256="0" * 64))), scheme, "python 3.11.2"),
        layer_key(replace(layer, whiteouts=("/a",)), scheme, "python 3.11.2"),
    ]
    assert len({key, *different}) == len(different) + 1
