from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from flbuild.errors import RecipeError
from flbuild.recipe.load import load_recipe, load_with_lines
from flbuild.recipe.model import DebianBase, ImageBase

RECIPES = Path(__file__).parents[3] / "recipes"


def test_a_valid_recipe_loads_with_normalised_names(write, minimal):
    recipe = load_recipe(write(minimal))
    assert recipe.packages[0].name == "flag-tree"
    assert isinstance(recipe.base, ImageBase)
    assert recipe.vllm.local_version == "0.28.0+empty"


@pytest.mark.parametrize("name", ["ascend", "cpu", "cuda"])
def test_the_committed_recipes_load(name):
    assert load_recipe(RECIPES / f"{name}.yaml").name == name


# Each edit of the minimal recipe, the line and key it must be reported at, and words of the message.
MISTAKES = [
    ("summary: A", "sumary: A", 3, "sumary", "unknown key; perhaps you meant 'summary'"),
    ("  version: ", "  versoin: ", 6, "python.versoin", "perhaps you meant 'version'"),
    ("index: flagos", "indx: flagos", 16, "packages[0].indx", "perhaps you meant 'index'"),
    ("extends: ci", "extend: ci", 20, "targets.dev.extend", "perhaps you meant 'extends'"),
    ("provides:", "provide:", 10, "base.provide", "perhaps you meant 'provides'"),
    ("  remove:", "  packages:", 13, "base.packages", "unknown key"),
    ("summary: A tiny image\n", "", 1, "summary", "the key is missing"),
    ("  repository: registry.example/team/image\n", "", 21, "image.repository", "the key is missing"),
    ('"3.11"', "3.10", 6, "python.version", '3.10 is a number to YAML; write "3.10" in quotes'),
    ('"3.11"', '"3.11.2"', 6, "python.version", "major.minor"),
    ("summary: A tiny image", "summary: no", 3, "summary", "no is true or false to YAML"),
    ("summary: A tiny image", "summary: [a]", 3, "summary", "is a list; text is expected"),
    ("summary: A tiny image", "summary:", 3, "summary", "is empty; text is expected"),
    ("summary: A tiny image", "summary: 2027-01-01", 3, "summary", "2027-01-01 is a date to YAML"),
    ("summary: A tiny image", 'summary: "a\\nb"', 3, "summary", "control character"),
    ("release: {}", "release:", 18, "targets.release", "is empty; a mapping is expected; {} is an empty one"),
    ("release: {}", "release: {size_budget: 0}", 18, "targets.release.size_budget", "greater than 0"),
    (
        "release: {}",
        "release: {size_budget: 5 GB}",
        18,
        "targets.release.size_budget",
        "a whole number is expected",
    ),
    ("release: {}", "9: {}", 18, "", "the key 9 is not text"),
    ("release: {}", "Release: {}", 18, "targets.Release", "must match"),
    ("index: flagos", "index: My Index", 16, "packages[0].index", "the id of a named index"),
    ("release: {}", "release: []", 18, "targets.release", "is a list; a mapping is expected"),
    ("remove: [triton]", "remove: triton", 13, "base.remove", "is text; a list is expected"),
    ("linux/arm64", "linux/arm46", 4, "platform", "perhaps you meant 'linux/arm64'"),
    ("schema: 1", "schema: 2", 1, "schema", "'2' is not 1"),
    ("{version: 0.28.0}", "{version: 0.28.0, device: empti}", 14, "vllm.device", "perhaps you meant 'empty'"),
    ("{version: 0.28.0}", '{version: ">=0.28"}', 14, "vllm.version", "not one exact version"),
    ("name: Flag_Tree", 'name: "flag tree"', 16, "packages[0].name", "not the name of a Python distribution"),
    (", index: flagos", ", index: a, git: https://x.example/y", 16, "packages[0]", "both 'index' and 'git'"),
    ("index: flagos", "git: https://x.example/y", 16, "packages[0]", "without 'commit'"),
    ("index: flagos", "commit: " + "a" * 40, 16, "packages[0]", "'commit' without 'git'"),
    (
        "index: flagos",
        "git: https://x.example/y, commit: 34c6d2ce4",
        16,
        "packages[0].commit",
        "40 hexadecimal",
    ),
    ("index: flagos", "build_env: {A: b}", 16, "packages[0]", "is not built here"),
    ("index: flagos", "git: https://u:p@x.example/y", 16, "packages[0].git", "holds credentials"),
    ("index: flagos", "git: --upload-pack=x", 16, "packages[0].git", "not the URL of a git repository"),
    ("[pytest]", '["pytest >> 1"]', 19, "targets.ci.packages[0]", "is not a requirement"),
    ("[pytest]", '["pytest @ https://x.example/y.whl"]', 19, "targets.ci.packages[0]", "names a URL"),
    ("base:v1", "base", 9, "base.image", "has no tag"),
    ("registry.example/base:v1", "base", 9, "base.image", "has no tag"),
    ("registry.example/base:v1", "registry.example:5000/base", 9, "base.image", "has no tag"),
    ("base:v1", "base@sha256:" + "a" * 64, 9, "base.image", "holds a digest"),
    ("base:v1", "base:v1@sha256:" + "a" * 64, 9, "base.image", "holds a digest"),
    ("base:v1", "base:latest", 9, "base.image", "follows whatever is newest"),
    ("example/base:v1", "example/Base:v1", 9, "base.image", "not an image reference"),
    ("  image: registry", "  imge: registry", 8, "base", "perhaps 'imge' is meant to be 'image'"),
    ("  image: registry", "  debian: bookworm\n  image: registry", 8, "base", "exactly one of"),
    ("team/image", "team/image:tag", 22, "image.repository", "the tag has its own key"),
    ("{vllm}-{target}", "{vllm}-{traget}", 23, "image.tag", "perhaps you meant 'target'"),
    ("{vllm}-{target}", "{vllm", 23, "image.tag", "not a template"),
    ("{vllm}-{target}", "{vllm!r}", 23, "image.tag", "without a format"),
    ("{vllm}-{target}", "{vllm:>9}", 23, "image.tag", "without a format"),
    ("{vllm}-{target}", "-{vllm}", 23, "image.tag", "does not make a tag"),
    ("{vllm}-{target}", "{vllm}:{target}", 23, "image.tag", "does not make a tag"),
    ("/usr/lib/python3.11/site-packages", "lib/site", 7, "python.site_packages", "not a plain absolute path"),
    (
        "/usr/lib/python3.11/site-packages",
        "/usr/../etc",
        7,
        "python.site_packages",
        "not a plain absolute path",
    ),
    ("name: tiny", "name: tyni", 2, "name", "the file is called tiny.yaml"),
    ("name: tiny", "name: Tiny", 2, "name", "must match"),
]


@pytest.mark.parametrize(("old", "new", "line", "key", "words"), MISTAKES)
def test_a_mistake_is_one_message_with_file_line_key_and_cause(write, minimal, old, new, line, key, words):
    assert minimal.count(old) == 1
    with pytest.raises(RecipeError) as caught:
        load_recipe(write(minimal.replace(old, new)))
    (message,) = caught.value.what.splitlines()
    assert message.startswith(f"recipes/tiny.yaml:{line}: {key}{': ' if key else ''}")
    assert words in message
    assert not re.search("value error|input should", message, re.IGNORECASE)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("waiver", "words"),
    [
        ("expires: 20270301", "not a day"),
        ("expires: 2027-03-01 10:00:00", "not a day"),
        ("expires: soon", "not a day"),
        ("expires: 5", "not a day"),
        ("expires: 2027-03-01, reasn: x", "perhaps you meant 'reason'"),
    ],
)
def test_a_waivers_mistakes_are_placed_too(write, minimal, waiver, words):
    text = minimal + f"waivers:\n  - {{check: requirements, subject: x, reason: because of this, {waiver}}}\n"
    with pytest.raises(RecipeError) as caught:
        load_recipe(write(text))
    assert caught.value.what.startswith("recipes/tiny.yaml:25: waivers[0]")
    assert words in caught.value.what


@pytest.mark.parametrize("path", ["/abs", "../up", "a/../../b", '""'])
def test_the_plugins_folder_is_below_the_project(write, minimal, path):
    with pytest.raises(
        RecipeError, match=r"^recipes/tiny.yaml:24: plugin.path: .* not a path below the project"
    ):
        load_recipe(write(minimal + f"plugin: {{path: {path}}}\n"))
    assert load_recipe(write(minimal + "plugin: {path: python/plugin}\n")).plugin.path == "python/plugin"


def test_targets_are_not_empty_and_reasons_are_not_short(write, minimal):
    text = minimal.replace(
        "  release: {}\n  ci: {packages: [pytest]}\n  dev: {extends: ci, packages: [ruff]}\n", "  {}\n"
    )
    text += "waivers: [{check: a, subject: b, reason: short, expires: '2027-01-01'}]\n"
    with pytest.raises(RecipeError) as caught:
        load_recipe(write(text))
    assert caught.value.what.splitlines() == [
        "recipes/tiny.yaml:17: targets: is empty; it needs at least 1",
        "recipes/tiny.yaml:22: waivers[0].reason: is too short; it needs 10 characters",
    ]


def test_a_variable_name_is_checked(write, minimal):
    with pytest.raises(RecipeError, match=r"^recipes/tiny.yaml:25: env\.9X: "):
        load_recipe(write(minimal + "env:\n  9X: a\n"))


def test_all_mistakes_are_reported_in_the_order_of_lines(write, minimal):
    text = minimal.replace("schema: 1", "schema: 3").replace("tag:", "tagg:").replace("platform", "platfrom")
    with pytest.raises(RecipeError) as caught:
        load_recipe(write(text))
    places = [line.split(": ")[0] for line in caught.value.what.splitlines()]
    assert places == ["recipes/tiny.yaml:1", "recipes/tiny.yaml:4", "recipes/tiny.yaml:23"]


@pytest.mark.parametrize("base", ["5", "nothing", "[image]", "{image: x.example/y:z, debian: bookworm}"])
def test_a_base_of_no_kind_is_one_message_without_a_wrong_guess(write, minimal, base):
    start, end = minimal.index("base:"), minimal.index("vllm:")
    with pytest.raises(RecipeError) as caught:
        load_recipe(write(f"{minimal[:start]}base: {base}\n{minimal[end:]}"))
    assert caught.value.what == (
        "recipes/tiny.yaml:8: base: a base has exactly one of 'image' (a reference with a tag)"
        " and 'debian' (the name of a suite)"
    )


def test_a_value_far_from_all_allowed_ones_is_not_guessed_at(write, minimal):
    with pytest.raises(RecipeError) as caught:
        load_recipe(write(minimal.replace("{version: 0.28.0}", "{version: 0.28.0, device: xyz}")))
    assert caught.value.what == "recipes/tiny.yaml:14: vllm.device: 'xyz' is none of empty, cuda"


def test_the_document_is_a_mapping(write):
    with pytest.raises(RecipeError, match=r"^recipes/tiny.yaml:1: is a list; a mapping is expected"):
        load_recipe(write("- a\n"))


def test_a_debian_base_is_picked_by_its_key(write, minimal):
    text = minimal.replace(
        "image: registry.example/base:v1", "debian: bookworm\n  packages: [python3, libstdc++6]"
    )
    assert isinstance(load_recipe(write(text)).base, DebianBase)


def test_a_debian_package_cannot_be_an_option(write, minimal):
    text = minimal.replace("image: registry.example/base:v1", "debian: bookworm\n  packages: [--foo]")
    with pytest.raises(RecipeError, match=r"^recipes/tiny.yaml:10: base.packages\[0\]: "):
        load_recipe(write(text))


def test_the_place_of_a_file_outside_a_recipes_folder_is_its_path(tmp_path, minimal):
    path = tmp_path / "tiny.yaml"
    path.write_text(minimal.replace("schema: 1", "schema: 2"))
    with pytest.raises(RecipeError) as caught:
        load_recipe(path)
    assert caught.value.what.startswith(f"{path}:1: ")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("index: flagos", "git: htps://me:hidden@x.example/y"),
        ("index: flagos", "git: https://me:hidden@x.example/y"),
        ("[pytest]", '["pytest @ https://me:hidden@x.example/y.whl"]'),
        ("registry.example/base:v1", "https://me:hidden@x.example/base:v1"),
    ],
)
def test_a_message_does_not_repeat_a_credential(write, minimal, old, new):
    with pytest.raises(RecipeError) as caught:
        load_recipe(write(minimal.replace(old, new)))
    assert "hidden" not in str(caught.value)


def test_lines_of_a_valid_recipe_are_kept(write, minimal):
    loaded = load_with_lines(write(minimal))
    assert loaded.document.line(("packages", 0, "index")) == 16


def test_a_damaged_file_is_never_worse_than_a_recipe_error(write, minimal):
    generator = random.Random(0)
    alphabet = "{}[]:,#&*!|>'\"%@`-? \n\t\r\x00aé1.~="
    messages = []
    for _ in range(150):
        text = list(minimal)
        for _ in range(generator.randint(1, 4)):
            text[generator.randrange(len(text))] = generator.choice(alphabet)
        try:
            load_recipe(write("".join(text)))
        except RecipeError as error:
            messages.append(error.what)
    assert len(messages) > 50
    assert all(message.startswith("recipes/tiny.yaml:") for message in messages)
