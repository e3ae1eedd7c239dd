from __future__ import annotations

import pytest
from pydantic import ValidationError

from flbuild.recipe.model import DebianBase, ImageBase, Recipe, Vllm


@pytest.mark.parametrize("base", [ImageBase(image="x.example/y:z"), DebianBase(debian="bookworm")])
def test_a_base_may_be_given_as_a_model(make, base):
    assert make(base=base).base == base


@pytest.mark.parametrize(
    "base", [None, 5, "image", ["image"], {}, {"image": "x.example/y:z", "debian": "bookworm"}]
)
def test_anything_else_is_no_base(make, base):
    with pytest.raises(ValidationError, match="exactly one of 'image'"):
        make(base=base)


def test_a_recipe_survives_its_own_json(make):
    for base in ({"image": "x.example/y:z", "components": {"cann": "8.3.RC1"}}, {"debian": "bookworm"}):
        recipe = make(base=base, env={"A": "b"})
        assert Recipe.model_validate_json(recipe.model_dump_json(by_alias=True)) == recipe


def test_nothing_in_a_recipe_changes(make):
    recipe = make()
    with pytest.raises(ValidationError):
        recipe.name = "other"
    with pytest.raises(ValidationError):
        recipe.vllm.version = "1"


def test_names_and_versions_are_in_normal_form(make):
    recipe = make(
        packages=[{"name": "A_b.C", "version": "1.0.0-RC1"}],
        base={
            "image": "x.example/y:z",
            "provides": {"Torch_NPU": "2.10.0"},
            "components": {"cann": "8.3.RC1"},
        },
    )
    assert (recipe.packages[0].name, recipe.packages[0].version) == ("a-b-c", "1.0.0rc1")
    assert recipe.base.provides == {"torch-npu": "2.10.0"}
    assert recipe.base.components == {"cann": "8.3rc1"}


def test_the_installed_version_names_the_empty_device():
    assert Vllm(version="0.28.0").local_version == "0.28.0+empty"
    assert Vllm(version="0.28.0", device="cuda").local_version == "0.28.0"
