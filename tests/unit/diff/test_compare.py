from __future__ import annotations

from flbuild.diff.compare import Change, compare


def test_what_is_on_one_side_only_or_differs_is_told_by_section_and_name():
    before = {"packages": {"a": "1", "b": "1", "c": "1"}, "gone": {"x": "1"}}
    after = {"packages": {"b": "2", "c": "1", "d": "1"}, "new": {"y": "1"}}
    assert list(compare(before, after)) == [
        Change("packages", "a", "1", None),
        Change("packages", "b", "1", "2"),
        Change("packages", "d", None, "1"),
        Change("gone", "x", "1", None),
        Change("new", "y", None, "1"),
    ]
    assert [change.kind for change in compare(before, after)][:3] == ["removed", "changed", "added"]


def test_equal_sides_differ_in_nothing():
    side = {"packages": {"a": "1"}}
    assert list(compare(side, dict(side))) == []
    assert list(compare(side, {**side, "empty": {}})) == []
