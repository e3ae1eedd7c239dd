from __future__ import annotations

import pytest


def plugin(installed_files, text, files=None):
    return installed_files("vllm-plugin-fl", "1.2.0", entry_points=text, files=files)


def test_a_group_without_an_entry_point_is_found(case, installed_files):
    case.plugin = plugin(installed_files, "[console_scripts]\nfl = vllm_plugin_fl:main\n")
    assert case.errors("entry-points") == [
        "vllm.platform_plugins: vllm-plugin-fl has no entry point in this group"
    ]


def test_a_wheel_without_entry_points_is_found(case, installed_files):
    case.plugin = plugin(installed_files, "")
    assert len(case.errors("entry-points")) == 1


def test_an_entry_point_that_leads_nowhere_is_found(case, installed_files):
    case.plugin = plugin(installed_files, "[vllm.platform_plugins]\nfl = vllm_fl.gone:register\n")
    (error,) = case.errors("entry-points")
    assert error.endswith("'fl = vllm_fl.gone:register' leads to a module that is not in the image")


@pytest.mark.parametrize("value", ["vllm_fl", "vllm_fl:register", "vllm_fl.platform:Fl.register [extra]"])
def test_packages_modules_attributes_and_extras_are_understood(case, installed_files, value):
    files = {"vllm_fl/__init__.py": b"", "vllm_fl/platform.py": b""}
    case.plugin = plugin(installed_files, f"[vllm.platform_plugins]\nFl = {value}\n", files)
    assert case.errors("entry-points") == []


def test_a_file_that_is_no_entry_points_file_is_found(case, installed_files):
    case.plugin = plugin(installed_files, "no section\n")
    (error,) = case.errors("entry-points")
    assert error.startswith("vllm-plugin-fl: entry_points.txt cannot be read")
