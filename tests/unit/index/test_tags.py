from __future__ import annotations

import pytest

from flbuild.errors import UsageError
from flbuild.index.tags import Environment

BOOKWORM = Environment("3.11", "linux/amd64", "2.36")
JAMMY_ARM = Environment("3.11", "linux/arm64", "2.35")


@pytest.mark.parametrize(
    "filename",
    [
        "a-1-py3-none-any.whl",
        "a-1-cp311-cp311-manylinux_2_28_x86_64.whl",
        "a-1-cp311-cp311-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
        "a-1-cp39-abi3-manylinux_2_31_x86_64.whl",
        "a-1-cp311-cp311-linux_x86_64.whl",
        "a-1-py3-none-manylinux1_x86_64.whl",
    ],
)
def test_a_wheel_for_this_python_machine_and_library_fits(filename):
    assert BOOKWORM.rank(filename) is not None


@pytest.mark.parametrize(
    "filename",
    [
        "a-1-cp312-cp312-manylinux_2_28_x86_64.whl",
        "a-1-cp311-cp311-manylinux_2_28_aarch64.whl",
        "a-1-cp311-cp311-musllinux_1_2_x86_64.whl",
        "a-1-cp311-cp311-win_amd64.whl",
        "a-1-cp312-abi3-manylinux_2_28_x86_64.whl",
        "a-1.tar.gz",
    ],
)
def test_any_other_wheel_does_not(filename):
    assert BOOKWORM.rank(filename) is None


def test_b13_a_wheel_that_needs_a_newer_glibc_is_refused_in_words():
    name = "flagtree-0.6-cp311-cp311-manylinux_2_39_aarch64.whl"
    assert JAMMY_ARM.rank(name) is None
    assert JAMMY_ARM.why_not([name]) == "its wheels need glibc 2.39 or later, and the base has 2.35"
    assert Environment("3.11", "linux/arm64", "2.39").rank(name) is not None


def test_a_wheel_of_another_machine_is_refused_in_words():
    assert JAMMY_ARM.why_not(["a-1-cp311-cp311-manylinux_2_28_x86_64.whl"]) == "it has no wheel for aarch64"


def test_a_wheel_of_another_python_is_refused_in_words():
    assert "CPython 3.11" in JAMMY_ARM.why_not(["a-1-cp313-cp313-manylinux_2_28_aarch64.whl"])


def test_the_most_specific_wheel_is_the_best_whatever_the_order():
    names = [
        "a-1-py3-none-any.whl",
        "a-1-cp39-abi3-manylinux_2_17_x86_64.whl",
        "a-1-cp311-cp311-manylinux_2_17_x86_64.whl",
        "a-1-cp311-cp311-manylinux_2_28_x86_64.whl",
        "a-1-cp311-cp311-manylinux_2_39_x86_64.whl",
    ]
    assert BOOKWORM.best(names) == BOOKWORM.best(names[::-1]) == names[3]


def test_a_later_build_of_the_same_wheel_is_better():
    names = ["a-1-py3-none-any.whl", "a-1-8-py3-none-any.whl", "a-1-9-py3-none-any.whl"]
    assert BOOKWORM.best(names) == BOOKWORM.best(names[::-1]) == names[2]


def test_another_c_library_is_not_guessed_at():
    with pytest.raises(UsageError, match="glibc"):
        _ = Environment("3.11", "linux/amd64", "musl").tags
