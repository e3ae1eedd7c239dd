from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from flbuild.recipe.canonical import canonical_form, canonical_hash
from flbuild.recipe.load import load_recipe
from flbuild.recipe.model import Recipe

VECTORS = Path(__file__).with_name("canonical_vectors.yaml")


def vectors():
    return yaml.safe_load(VECTORS.read_text())


@pytest.mark.parametrize("name", sorted(vectors()))
def test_frozen_vectors_keep_their_hash(name):
    # These never change while FORMAT is 1: if one fails, every lock out there would look stale.
    vector = vectors()[name]
    assert canonical_hash(Recipe.model_validate(vector["recipe"])) == vector["hash"]


def test_the_form_holds_only_plain_json_values(make):
    form = canonical_form(make())
    assert json.loads(json.dumps(form)) == form


@pytest.mark.parametrize(
    "changes",
    [
        {"summary": "Another text"},
        {"image": {"repository": "elsewhere.example/x", "tag": "{target}"}},
        {"ci": {"runner_labels": ["npu"]}},
        {"waivers": [{"check": "a", "subject": "b", "reason": "because of this", "expires": "2030-01-01"}]},
        {"plugin": {"entry_points": ["vllm.platform_plugins"]}},
        {"targets": {"dev": {"packages": ["pytest", "ruff"]}, "ci": {"packages": ["pytest"]}, "release": {}}},
        {
            "targets": {
                "release": {"size_budget": 5},
                "ci": {"packages": ["pytest"]},
                "dev": {"packages": ["ruff", "pytest"]},
            }
        },
    ],
    ids=lambda changes: "-".join(changes),
)
def test_what_changes_no_byte_of_the_image_changes_no_hash(make, changes):
    assert canonical_hash(make(**changes)) == canonical_hash(make())


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "other"},
        {"platform": "linux/amd64"},
        {"python": {"version": "3.12", "site_packages": "/usr/lib/python3.11/site-packages"}},
        {
            "python": {
                "version": "3.11",
                "site_packages": "/usr/lib/python3.11/site-packages",
                "bytecode": False,
            }
        },
        {"base": {"image": "registry.example/base:v2"}},
        {"base": {"debian": "bookworm"}},
        {"vllm": {"version": "0.28.1"}},
        {"vllm": {"version": "0.28.0", "device": "cuda"}},
        {"packages": []},
        {"packages": [{"name": "flag-tree", "version": "0.6.2a1"}]},
        {"overrides": ["numpy==1.26.4"]},
        {"forbid": ["triton"]},
        {"plugin": {"path": "other"}},
        {"targets": {"release": {}}},
        {"targets": {"release": {}, "ci": {"packages": ["pytest"]}, "dev": {"packages": ["ruff"]}}},
        {"env": {"A": "b"}},
        {"entrypoint": ["vllm"]},
        {"cmd": ["serve"]},
        {"workdir": "/workspace"},
    ],
    ids=lambda changes: "-".join(changes),
)
def test_what_changes_the_image_changes_the_hash(make, changes):
    assert canonical_hash(make(**changes)) != canonical_hash(make())


def test_comments_layout_and_order_of_keys_change_no_hash(write, minimal):
    before = canonical_hash(load_recipe(write(minimal)))
    moved = minimal.replace("schema: 1\n", "# a comment\n") + "schema: 1\n"
    assert canonical_hash(load_recipe(write(moved))) == before


def test_the_order_of_packages_changes_no_hash(make):
    one, two = {"name": "a", "version": "1"}, {"name": "b", "version": "2"}
    assert canonical_hash(make(packages=[one, two])) == canonical_hash(make(packages=[two, one]))


def test_the_order_of_a_command_matters(make):
    assert canonical_hash(make(cmd=["a", "b"])) != canonical_hash(make(cmd=["b", "a"]))


def test_the_default_index_may_be_written_out(make):
    written = make(packages=[{"name": "a", "version": "1", "index": "pypi"}])
    assert canonical_hash(written) == canonical_hash(make(packages=[{"name": "a", "version": "1"}]))


def test_the_hash_is_the_same_in_a_process_with_another_hash_seed_and_locale(write, minimal):
    path = write(
        minimal.replace("A tiny image", "Ein kleines Bild").replace(
            "remove", "components: {cann: 9.0.0}\n  remove"
        )
    )
    code = (
        "import sys; from pathlib import Path; from flbuild.recipe.load import load_recipe;"
        "from flbuild.recipe.canonical import canonical_hash;"
        "print(canonical_hash(load_recipe(Path(sys.argv[1]))))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code, str(path)],
            env={"PYTHONHASHSEED": seed, "LC_ALL": locale, "PYTHONPATH": str(Path(__file__).parents[3])},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed, locale in (("1", "C"), ("2", "C.UTF-8"))
    }
    assert found == {canonical_hash(load_recipe(path))}
