from __future__ import annotations

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement

from flbuild.index.markers import applies, marker_environment


def test_markers_name_the_python_and_the_machine_of_the_image():
    found = marker_environment("linux/arm64", "3.12")
    assert (found["python_version"], found["platform_machine"]) == ("3.12", "aarch64")


def test_every_marker_has_a_value():
    assert set(default_environment()) | {"extra"} == set(marker_environment("linux/amd64", "3.11"))


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("x", True),
        ("x; sys_platform == 'linux'", True),
        ("x; sys_platform == 'win32'", False),
        ("x; platform_machine == 'aarch64'", True),
        ("x; python_version < '3.11'", False),
        ("x; extra == 'test'", False),
    ],
)
def test_a_requirement_counts_where_its_marker_holds_in_the_image(text, counts):
    assert applies(Requirement(text), marker_environment("linux/arm64", "3.11")) is counts
