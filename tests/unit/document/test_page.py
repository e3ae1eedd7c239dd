from __future__ import annotations

from pathlib import Path

import pytest

from flbuild.document.facts import gather
from flbuild.document.page import cell, run_options, write_page
from flbuild.image import load_inputs
from flbuild.project import Project

ROOT = Path(__file__).parents[3]
PROJECT = Project(ROOT)


@pytest.fixture
def page(recipe, locked):
    return write_page(gather(recipe(), locked), PROJECT.templates)


@pytest.mark.parametrize("name", PROJECT.recipe_names())
def test_the_page_of_every_recipe_is_current(name):
    inputs = load_inputs(PROJECT, name)
    text = write_page(gather(inputs.recipe, inputs.locked), PROJECT.templates)
    kept = ROOT / "docs" / "images" / f"{name}.md"
    assert kept.read_text(encoding="utf-8") == text, f"run: flbuild document {name}"


@pytest.mark.parametrize(
    "told",
    [
        "# demo: a demo",
        "| platform | `linux/arm64` |",
        "| release | none | 5.0 MB |",
        "| dev | pytest, ruff | none |",
        "    flbuild image demo\n",
        "    flbuild verify image REF\n",
        "      --privileged \\\n      --device /dev/npu0 \\\n      --volume /data:/data:ro \\\n",
        "on runners with the labels `npu`",
        "| numpy | 1.26.4 | index `pypi` | `sha256:aaaaaaaaaaaa` |",
        "They bring 2 further distributions",
        "The module `triton` (3.5) is that of tree.",
        "Removed from the base: gone.",
        "- requirements: x needs y>=2\\|z. Accepted until 2027-01-02: nothing here calls it.",
        "- tree 6, from vendor: it could not be reached",
        "(target release, revision `eeeeeeeeeeee`, 2026-01-02T03:04:05Z)",
    ],
)
def test_the_page_tells(page, told):
    assert told in page


def test_what_there_is_nothing_to_say_about_has_no_section(recipe, locked):
    plain = recipe(
        base={"debian": "bookworm"}, waivers=[], ci={}, packages=[{"name": "numpy", "version": "1.26.4"}]
    )
    page = write_page(
        gather(plain, locked.model_copy(update={"unresolved": (), "outputs": ()})), PROJECT.templates
    )
    assert "Nothing of it is published." in page
    assert "None: every check" in page
    for absent in (
        "Not pinned yet",
        "Removed from the base",
        "Must be absent",
        "continuous integration",
        "module",
    ):
        assert absent not in page


def test_options_are_ready_for_a_shell(recipe):
    assert run_options(recipe().ci)[-1] == "--env 'NOTE=two words'"


def test_a_cell_of_a_table_stays_one_cell():
    assert cell("a|b <script>") == "a\\|b &lt;script>"
