from __future__ import annotations

import pytest

SITE = "usr/local/lib/python3.11/dist-packages"


@pytest.fixture
def with_wheel(case, wheel):
    """A case whose numpy is compared with its locked wheel."""
    path = wheel("numpy", "1.26.4")
    case.wheels[path.name] = path
    return case


def test_files_of_the_locked_wheel_are_fine(with_wheel):
    assert with_wheel.errors("wheels") == []


def test_wheels_that_are_not_here_are_named(with_wheel):
    (finding,) = with_wheel.findings("wheels")
    assert (finding.severity, finding.subject) == ("warning", "2 of 3")
    assert "torch, vllm-plugin-fl" in finding.message
    assert "--fetch" in finding.remedy


def test_another_file_is_found_even_if_the_images_record_agrees(with_wheel):
    with_wheel.install("numpy", "1.26.4", files={"numpy/__init__.py": b"value = 2\n"})
    assert with_wheel.errors("record") == []
    errors = with_wheel.errors("wheels")
    assert f"numpy: /{SITE}/numpy/__init__.py is not the file in numpy-1.26.4-py3-none-any.whl" in errors


def test_a_file_that_is_recorded_but_not_in_the_wheel_is_found(with_wheel):
    files = {"numpy/__init__.py": b"value = 1\n", "numpy.pth": b"import evil\n"}
    with_wheel.install("numpy", "1.26.4", files=files)
    assert with_wheel.errors("record") == []
    assert f"numpy: /{SITE}/numpy.pth is recorded, and numpy-1.26.4-py3-none-any.whl has no such file" in (
        with_wheel.errors("wheels")
    )


def test_a_file_of_the_wheel_that_is_missing_is_found(with_wheel):
    with_wheel.install("numpy", "1.26.4", files={})
    with_wheel.drop("numpy/")
    (error,) = with_wheel.errors("wheels")
    assert error == f"numpy: /{SITE}/numpy/__init__.py of numpy-1.26.4-py3-none-any.whl is missing"


def test_what_the_installer_adds_is_fine(with_wheel):
    info = "numpy-1.26.4.dist-info"
    record = f"{SITE}/{info}/RECORD"
    with_wheel.files[record] += (
        f"{info}/INSTALLER,sha256=x,1\n{info}/REQUESTED,,\nnumpy/__pycache__/__init__.cpython-311.pyc,,\n"
        "../../../bin/f2py,sha256=x,1\n"
    ).encode()
    assert with_wheel.errors("wheels") == []


def test_data_of_a_wheel_is_looked_for_where_it_goes(case, wheel):
    path = wheel(
        "tool", "1.0", files={"tool-1.0.data/purelib/tool.py": b"x\n", "tool-1.0.data/scripts/tool": b"#!"}
    )
    case.wheels[path.name] = path
    case.add("tool", "1.0", files={"tool.py": b"x\n"})
    case.files[f"{SITE}/tool-1.0.dist-info/RECORD"] = case.files[f"{SITE}/tool-1.0.dist-info/RECORD"]
    assert case.errors("wheels") == []
    case.files[f"{SITE}/tool.py"] = b"y\n"
    (error,) = case.errors("wheels")
    assert error == f"tool: /{SITE}/tool.py is not the file in tool-1.0-py3-none-any.whl"


def test_a_distribution_that_is_missing_is_left_to_another_check(with_wheel):
    with_wheel.drop("numpy")
    assert with_wheel.errors("wheels") == []
