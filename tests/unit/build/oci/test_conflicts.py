from __future__ import annotations

import pytest

from flbuild.build.oci.conflicts import refuse_conflicts, refuse_layer_conflicts
from flbuild.build.oci.entries import Content, Entry
from flbuild.errors import BuildError
from flbuild.plan.model import PlannedLayer


def entry(owner, data, path="site/triton/__init__.py"):
    return Entry(path, Content.of(data), 0o644, owner)


def test_two_owners_of_one_file_are_both_named():
    """FlagGems#4535: installing vllm overwrote the triton folder that flagtree owned."""
    with pytest.raises(BuildError, match=r"flagtree and triton both install site/triton/__init__\.py"):
        refuse_conflicts([entry("flagtree", b"1"), entry("triton", b"2")])


def test_the_same_bytes_are_no_conflict_and_are_kept_once():
    kept = refuse_conflicts([entry("a", b""), entry("b", b""), entry("b", b"", "site/other.py")])
    assert [(item.owner, item.path) for item in kept] == [
        ("a", "site/triton/__init__.py"),
        ("b", "site/other.py"),
    ]


@pytest.fixture
def check(wheels):
    def run(first, second):
        one, two = wheels.add("flagtree", first), wheels.add("triton", second)
        layers = [PlannedLayer(wheel.name, "wheels", "", (wheel,)) for wheel in (one, two)]
        refuse_layer_conflicts(layers, wheels.files)

    return run


def test_owners_in_different_layers_are_compared_too(check):
    with pytest.raises(BuildError, match=r"flagtree and triton both install triton/__init__\.py"):
        check({"triton/__init__.py": b"1"}, {"triton/__init__.py": b"2"})


def test_layers_may_share_equal_files(check):
    check({"ns/__init__.py": b""}, {"ns/__init__.py": b"", "ns/b.py": b""})


def test_scripts_conflict_like_modules(check):
    with pytest.raises(BuildError, match="scripts/tool"):
        check({"flagtree-1.0.data/scripts/tool": b"1"}, {"triton-1.0.data/scripts/tool": b"2"})


def test_entry_points_conflict_like_scripts(check):
    def points(target):
        return f"[console_scripts]\ntool = {target}\n".encode()

    with pytest.raises(BuildError, match="scripts/tool"):
        check(
            {"flagtree-1.0.dist-info/entry_points.txt": points("a:main")},
            {"triton-1.0.dist-info/entry_points.txt": points("b:main")},
        )
