from __future__ import annotations

import pytest

from flbuild.document.facts import gather


@pytest.fixture
def rows(recipe, locked):
    return {row.name: row for row in gather(recipe(), locked).rows}


def test_each_named_distribution_says_where_it_comes_from_and_what_pins_it(rows):
    assert list(rows) == ["torch", "vllm", "gems", "numpy", "tree"]
    assert rows["torch"].pin == "the base's digest"
    assert (rows["vllm"].version, rows["vllm"].origin) == ("0.28.0+empty", "built from `vllm-0.28.0.tar.gz`")
    assert rows["gems"].origin == "built from `https://git.example/gems` at `cccccccccccc`"
    assert (rows["numpy"].origin, rows["numpy"].pin) == ("index `pypi`", "`sha256:aaaaaaaaaaaa`")


def test_what_is_not_pinned_yet_says_why(rows):
    assert rows["tree"].pin == "not pinned yet: it could not be reached"


def test_others_are_those_that_nobody_named(recipe, locked):
    assert gather(recipe(), locked).others == 2


def test_only_what_has_a_reference_is_published(recipe, locked):
    assert [output.target for output in gather(recipe(), locked).published] == ["release"]


def test_targets_come_with_what_they_extend(recipe, locked):
    assert gather(recipe(), locked).targets["dev"].packages == ("pytest", "ruff")


def test_the_base_is_named_by_digest_or_said_to_be_open(recipe, locked):
    assert gather(recipe(), locked).base == f"`quay.io/team/base:v1@{locked.base.digest}`"
    without = locked.model_copy(update={"base": None})
    assert gather(recipe(), without).base == "`quay.io/team/base:v1`, not pinned yet"


def test_a_debian_base_is_named_by_its_suite(recipe, locked):
    debian = {"debian": "bookworm"}
    assert gather(recipe(base=debian), locked).base.startswith("Debian bookworm")


def test_the_tag_has_the_fields_that_a_build_fills_in(recipe, locked):
    assert gather(recipe(), locked).repository_tag == "registry.example/team/demo:demo-0.28.0-TARGET-DATE"


def test_vllm_of_the_base_is_not_named_twice(recipe, locked):
    base = {"image": "quay.io/team/base:v1", "provides": {"vllm": "0.28.0"}}
    cuda = {"version": "0.28.0", "device": "cuda"}
    names = [row.name for row in gather(recipe(base=base, vllm=cuda), locked).rows]
    assert names.count("vllm") == 1
