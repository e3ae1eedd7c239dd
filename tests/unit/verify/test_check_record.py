from __future__ import annotations

import pytest

SITE = "usr/local/lib/python3.11/dist-packages"
RECORD = f"{SITE}/numpy-1.26.4.dist-info/RECORD"


def test_a_changed_file_is_found(case):
    case.files[f"{SITE}/numpy/__init__.py"] = b"value = 2\n"
    assert case.errors("record") == [f"numpy: /{SITE}/numpy/__init__.py does not have the recorded hash"]


def test_a_missing_file_is_found(case):
    del case.files[f"{SITE}/numpy/__init__.py"]
    assert case.errors("record") == [f"numpy: /{SITE}/numpy/__init__.py is recorded, and missing"]


def test_a_file_without_an_owner_is_found(case):
    case.files[f"{SITE}/numpy/backdoor.py"] = b"import os\n"
    assert case.errors("record") == [f"unowned: /{SITE}/numpy/backdoor.py belongs to no distribution"]


def test_byte_code_of_a_recorded_module_needs_no_row_but_that_of_no_module_does(case):
    case.files[f"{SITE}/numpy/__pycache__/__init__.cpython-311.pyc"] = b"code"
    (finding,) = case.findings("record")
    assert (finding.severity, finding.subject) == ("warning", "byte-code")
    case.files[f"{SITE}/numpy/__pycache__/evil.cpython-311.pyc"] = b"code"
    assert len(case.errors("record")) == 1


def test_a_distribution_without_record_is_found(case):
    del case.files[RECORD]
    assert f"numpy: /{SITE}/numpy-1.26.4.dist-info has no RECORD" in case.errors("record")


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (
            b"numpy/__init__.py,sha256=",
            b"numpy/__init__.py,md5=",
            "is recorded with md5, which is not checked",
        ),
        (b",10\n", b",11\n", "has 10 bytes, recorded are 11"),
    ],
)
def test_rows_that_do_not_fit_are_found(case, old, new, problem):
    case.files[RECORD] = case.files[RECORD].replace(old, new, 1)
    assert case.errors("record") == [f"numpy: /{SITE}/numpy/__init__.py {problem}"]


def test_a_row_whose_hash_was_taken_out_is_found(case):
    lines = case.files[RECORD].splitlines(keepends=True)
    case.files[RECORD] = b"".join(b"numpy/__init__.py,,\n" if b"__init__" in line else line for line in lines)
    assert case.errors("record") == [f"numpy: /{SITE}/numpy/__init__.py is recorded without a hash"]


def test_broken_rows_are_found(case):
    case.files[RECORD] += b"one,two\n"
    assert case.errors("record") == ["numpy: a row of RECORD is broken: one,two"]


def test_rows_lead_out_of_site_packages_to_scripts(case, record):
    info = "tool-1.0.dist-info"
    script = b"#!/usr/bin/python3\n"
    listed = {
        "../../../bin/tool": script,
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: tool\nVersion: 1.0\n",
    }
    case.packages["tool"] = "1.0"
    case.files |= {
        "usr/local/bin/tool": (script, 0o755),
        f"{SITE}/{info}/METADATA": listed[f"{info}/METADATA"],
        f"{SITE}/{info}/RECORD": record(listed, f"{info}/RECORD"),
    }
    assert case.errors("record") == []
    case.files["usr/local/bin/tool"] = (b"#!/bin/sh\n", 0o755)
    assert case.errors("record") == ["tool: /usr/local/bin/tool does not have the recorded hash"]


def test_many_problems_are_counted_not_listed(case):
    for number in range(8):
        case.files[f"{SITE}/stray{number}.py"] = b""
    errors = case.errors("record")
    assert len(errors) == 6
    assert errors[-1] == "unowned: and 3 more files like these"


def test_what_a_later_layer_overwrites_is_found(case):
    case.plugin[f"{SITE}/torch/__init__.py"] = b"patched\n"
    assert case.errors("record") == [f"torch: /{SITE}/torch/__init__.py does not have the recorded hash"]


def test_a_distribution_that_debian_installed_needs_no_record(case, carried, installed_files):
    files = installed_files("six", "1.0", site="usr/lib/python3/dist-packages")
    case.base |= {path: content for path, content in files.items() if not path.endswith("RECORD")}
    location = "/usr/lib/python3/dist-packages/six-1.0.dist-info"
    case.inventory = (carried("six", location=location),)
    assert case.errors("record") == []
