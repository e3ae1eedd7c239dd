from __future__ import annotations

import json

import pytest

from flbuild.plan.explain import Builder, Present, plan_json, plan_lines, report_layers
from flbuild.plan.make import make_plan

OCI = (Builder("oci", ("every input is pinned by hash",)),)
NOTHING = Present(layer_size=lambda layer: None, has_file=lambda wheel: False)


@pytest.fixture
def plan(recipe, locked, facts):
    def make(**locked_changes):
        return make_plan(recipe(), locked(**locked_changes), "release", facts())

    return make


def test_what_has_to_be_fetched_is_counted(plan):
    reports = {report.layer.id: report for report in report_layers(plan(), NOTHING)}
    assert reports["torch"].to_fetch == 200_000_000
    assert reports["dependencies"].to_fetch == 2000
    assert reports["vllm"].to_fetch == 0  # built here
    assert reports["plugin"].wheel_bytes is None


def test_files_that_are_here_and_layers_that_are_built_need_no_fetch(plan):
    present = Present(
        layer_size=lambda layer: 123 if layer.id == "torch" else None,
        has_file=lambda wheel: wheel.name == "pyyaml",
    )
    reports = {report.layer.id: report for report in report_layers(plan(), present)}
    assert (reports["torch"].to_fetch, reports["torch"].layer_size, reports["torch"].state) == (
        0,
        123,
        "cached",
    )
    assert reports["dependencies"].to_fetch == 1000


def test_the_text_shows_layers_sizes_reasons_and_promises(plan):
    made = plan()
    text = "\n".join(plan_lines(made, report_layers(made, NOTHING), OCI))
    assert text.startswith("example.org/team/demo:demo-vllm0.28.0-release-20260910\n")
    for part in (
        "Debian bookworm",
        "200.0 MB",
        "large, so it moves alone",
        "pinned by the recipe: numpy",
        "0.28.0+empty, built here from its sources",
        "it changes most, so it is last",
        "every input is pinned by hash",
    ):
        assert part in text


def test_a_missing_input_is_flagged(plan, missing):
    made = plan(unresolved=(missing,), base=None)
    reports = report_layers(made, NOTHING)
    text = "\n".join(plan_lines(made, reports, OCI))
    assert "cannot be built:\n  cann-shmem 1.6.0: cann: did not answer" in text
    assert plan_json(made, reports, OCI)["unresolved"] == [
        {"name": "cann-shmem 1.6.0", "reason": "cann: did not answer"}
    ]
    assert plan_json(made, reports, OCI)["base"] is None


def test_the_document_is_json_and_says_the_same(plan, image_base):
    made = plan(base=image_base(("numpy", ["/site/numpy.py"])))
    data = json.loads(json.dumps(plan_json(made, report_layers(made, NOTHING), OCI)))
    assert data["reference"] == "example.org/team/demo:demo-vllm0.28.0-release-20260910"
    assert data["base"] == {
        "kind": "image",
        "name": "quay.io/ascend/vllm-ascend:v1",
        "layers": 2,
        "digest": "sha256:" + "d" * 64,
        "size": 3000,
    }
    assert [layer["id"] for layer in data["layers"]] == [
        "remove",
        "torch",
        "dependencies",
        "packages",
        "vllm",
        "plugin",
    ]
    assert data["layers"][0]["whiteouts"] == 1
    assert data["layers"][1]["wheels"][0]["origin"] == "pytorch-cpu"
    assert data["bytes_to_fetch"] == 200_003_000
    assert data["builders"] == [{"name": "oci", "guarantees": ["every input is pinned by hash"]}]


def test_the_order_of_layers_is_the_order_they_are_shown_in(plan):
    made = plan()
    text = "\n".join(plan_lines(made, report_layers(made, NOTHING), OCI))
    places = [text.index(f"\n{layer.id} ") for layer in made.layers]
    assert places == sorted(places)
