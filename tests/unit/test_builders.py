from __future__ import annotations

import pytest

from flbuild.build.model import CacheOptions
from flbuild.builders import DESCRIBED, NAMES, make_builder
from flbuild.errors import UsageError


def make(name, make_settings, cache=None):
    return make_builder(name, make_settings(), None, None, cache or CacheOptions())


@pytest.mark.parametrize("name", NAMES)
def test_every_builder_is_made_by_its_name_and_says_what_it_guarantees(name, make_settings):
    builder = make(name, make_settings)
    assert builder.name == name
    assert builder.guarantees[0] == "every input is pinned by hash"
    assert (name, builder.guarantees) in [(item.name, item.guarantees) for item in DESCRIBED]


def test_an_unknown_builder_is_a_usage_error_with_the_choice(make_settings):
    with pytest.raises(UsageError, match=r"unknown builder 'dcoker'.*'docker'") as caught:
        make("dcoker", make_settings)
    assert "oci, docker, buildah" in str(caught.value)


@pytest.mark.parametrize("cache", [CacheOptions(sources=("r/c:1",)), CacheOptions(target="r/c:1")])
def test_the_assembler_has_no_use_for_a_cache_in_a_registry(cache, make_settings):
    with pytest.raises(UsageError, match="--cache-from and --cache-to") as caught:
        make("oci", make_settings, cache)
    assert "FLBUILD_CACHE_DIR" in str(caught.value)
