from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from flbuild.base.layer import Entry, LayerFacts
from flbuild.base.tree import Tree

Stack = Callable[..., Tree]


def test_a_whiteout_takes_out_a_file_or_a_folder_of_the_layers_below(stack: Stack) -> None:
    tree = stack({"a/b/c": "", "a/b/d": "", "a/e": "", "f": ""}, {"a/.wh.b": "", ".wh.f": ""})
    assert tree.files == {"a/e"}


def test_a_whiteout_leaves_what_its_own_layer_adds_in_whichever_order(stack: Stack) -> None:
    assert stack({"a/old": ""}, {"a/new": "", ".wh.a": ""}).files == {"a/new"}
    assert stack({"a/old": ""}, {".wh.a": "", "a/new": ""}).files == {"a/new"}


def test_an_opaque_folder_hides_all_that_was_in_it(stack: Stack) -> None:
    tree = stack({"a/b/c": "", "a/d": "", "e": ""}, {"a/new": "", "a/.wh..wh..opq": ""})
    assert tree.files == {"a/new", "e"}


def test_a_whiteout_of_nothing_is_nothing(stack: Stack) -> None:
    assert stack({"a": ""}, {"b/.wh.c": "", ".wh.d": "", "e/.wh..wh..opq": ""}).files == {"a"}


def test_a_file_in_place_of_a_folder_hides_what_was_in_it(stack: Stack) -> None:
    assert stack({"a/b": "", "a/c": ""}, {"a": "now a file"}).files == {"a"}


def test_a_folder_in_place_of_a_file_or_a_link_hides_it(stack: Stack) -> None:
    tree = stack({"a": "", "b": ("symlink", "c"), "c/x": ""}, {"a/new": "", "b": None, "b/new": ""})
    assert tree.files == {"a/new", "b/new", "c/x"}


def test_paths_through_links_to_folders_are_the_real_ones(stack: Stack) -> None:
    tree = stack(
        {"usr/lib/a": "", "lib": ("symlink", "usr/lib"), "opt/lib": ("symlink", "/lib/../lib")},
        {"lib/b": "", "opt/lib/c": "", "opt/lib/.wh.a": ""},
    )
    assert tree.files == {"usr/lib/b", "usr/lib/c", "lib", "opt/lib"}
    assert tree.real("opt/lib") == "usr/lib"
    assert set(tree.below("opt/lib")) == {"usr/lib/b", "usr/lib/c"}


def test_links_in_a_circle_lead_nowhere(stack: Stack) -> None:
    tree = stack({"a": ("symlink", "b"), "b": ("symlink", "a")}, {"a/x": ""})
    assert tree.files == {"a", "b"}
    assert tree.real("a") is None


def test_the_content_is_that_of_the_uppermost_layer(stack: Stack) -> None:
    tree = stack({"x.pth": "one"}, {"x.pth": "two"})
    assert tree.contents == {"x.pth": b"two"}


def test_the_content_of_what_is_gone_or_replaced_is_gone(stack: Stack) -> None:
    lower = {"p/x.pth": "one", "q/y.pth": "two", "z.pth": "three"}
    tree = stack(
        lower, {".wh.p": "", "q/.wh..wh..opq": "", "z.pth": ("symlink", "elsewhere")}, {"p/x.pth": None}
    )
    assert tree.contents == {}


def test_a_hard_link_has_the_content_of_what_it_links_to(stack: Stack) -> None:
    tree = stack({"cache/x.pth": "one", "site/x.pth": ("hardlink", "cache/x.pth")}, {".wh.cache": ""})
    assert tree.contents == {"site/x.pth": b"one"}


def test_below_a_file_is_nothing(stack: Stack) -> None:
    tree = stack({"a": ""})
    assert list(tree.below("a")) == list(tree.below("b")) == []


@pytest.mark.timeout(20)
def test_thousands_of_whiteouts_on_a_large_base_take_no_time() -> None:
    tree = Tree()
    paths = [f"usr/lib/p{number % 3000}/f{number}" for number in range(60_000)]
    tree.apply(LayerFacts(entries=[Entry(path, "file") for path in paths]))
    start = time.monotonic()
    tree.apply(LayerFacts(whiteouts=[f"usr/lib/p{number}" for number in range(2_999)]))
    assert time.monotonic() - start < 2
    assert len(tree.files) == 20
