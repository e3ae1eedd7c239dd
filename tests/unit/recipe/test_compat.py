from __future__ import annotations

import pytest
from pydantic import ValidationError

from flbuild.recipe.compat import Part, Rule, find_conflicts, load_rules


def conflicts(rule, modules=(), **versions):
    parts = {name.replace("_", "-"): version for name, version in versions.items()}
    parts = {name: Part(name, version, f"key.{name}") for name, version in parts.items()}
    rule = Rule.model_validate({"severity": "error", "reason": "r", "source": "https://x.example", **rule})
    return [conflict.what for conflict in find_conflicts((rule,), parts, frozenset(modules))]


def test_every_shipped_rule_says_why_and_where_that_is_known():
    rules = load_rules()
    assert len(rules) >= 10
    assert all(rule.reason and rule.source.startswith("https://") for rule in rules)


@pytest.mark.parametrize(
    ("version", "expected"),
    [("1.5", []), ("1.5+local", []), ("2.0", ["key.a (a 1.0) needs b <2, but key.b (b 2.0)"]), ("2.0rc1", 1)],
)
def test_need_compares_the_other_version(version, expected):
    result = conflicts({"when": {"a": ""}, "need": {"b": "<2,!=2.0rc1"}}, a="1.0", b=version)
    if expected == 1:
        assert len(result) == 1
    else:
        assert [text.replace("!=2.0rc1,", "").replace(",!=2.0rc1", "") for text in result] == expected


def test_a_rule_about_something_absent_says_nothing():
    rule = {"when": {"a": ">=2"}, "need": {"b": "<2"}}
    assert conflicts(rule, b="3") == []
    assert conflicts(rule, a="1", b="3") == []
    assert conflicts(rule, a="2") == []


@pytest.mark.parametrize(
    ("how", "other", "broken"),
    [
        ("minor", "2.10.3", False),
        ("minor", "2.11.0", True),
        ("exact", "2.10.0+cpu", False),
        ("exact", "2.10.0.post4", True),
    ],
)
def test_equal_compares_as_much_as_the_rule_says(how, other, broken):
    assert bool(conflicts({"when": {"a": ""}, "equal": {"b": how}}, a="2.10.0", b=other)) is broken


def test_without_and_modules():
    assert conflicts({"when": {"a": ""}, "without": ["b"]}, a="1", b="2") == [
        "key.a (a 1) cannot be beside key.b (b 2)"
    ]
    assert conflicts({"when": {"a": ""}, "without": ["b"]}, a="1") == []
    assert conflicts({"when": {"a": ""}, "modules": ["m"]}, modules=["m"], a="1") == []
    assert len(conflicts({"when": {"a": ""}, "modules": ["m"]}, a="1")) == 1


def test_b17_a_known_failure_needs_all_of_its_parts():
    rule = {"when": {"a": "==1", "b": "<3"}}
    assert conflicts(rule, a="1", b="2") == ["key.a (a 1) with key.b (b 2) is known to fail"]
    assert conflicts(rule, a="1", b="3") == []
    assert conflicts(rule, a="1") == []


def test_a_release_candidate_is_compared_like_any_version():
    assert conflicts({"when": {"a": ">=8.3rc1,<8.6"}}, a="8.3rc1") != []


@pytest.mark.parametrize(
    "broken", [{"wen": {}}, {"when": {"a": "=>1"}}, {"when": {}}, {"when": {"a": ""}, "source": "x"}]
)
def test_a_broken_rule_is_refused(broken):
    with pytest.raises(ValidationError):
        conflicts(broken, a="1")
