from __future__ import annotations

import json

from flbuild.recipe.canonical import canonical_hash
from flbuild.recipe.resolve import resolved


def test_defaults_are_filled_and_targets_expanded(make):
    recipe = make(packages=[{"name": "a", "version": "1"}, {"name": "b", "version": "1", "index": "x"}])
    data = resolved(recipe)
    assert data["hash"] == canonical_hash(recipe)
    assert data["vllm"] == {"version": "0.28.0", "device": "empty", "installs_as": "0.28.0+empty"}
    assert [package["index"] for package in data["packages"]] == ["pypi", "x"]
    assert data["targets"]["dev"] == {"packages": ["pytest", "ruff"]}
    assert data["targets"]["release"] == {"packages": []}
    assert data["python"]["executable"] == "/usr/bin/python3"
    assert data["schema"] == 1


def test_a_git_package_has_no_index(make):
    package = {"name": "a", "version": "1", "git": "https://x.example/y", "commit": "a" * 40}
    assert "index" not in resolved(make(packages=[package]))["packages"][0]


def test_the_result_is_plain_json(make):
    waiver = {"check": "a", "subject": "b", "reason": "because of this", "expires": "2030-01-01"}
    data = resolved(make(waivers=[waiver]))
    assert json.loads(json.dumps(data))["waivers"][0]["expires"] == "2030-01-01"
