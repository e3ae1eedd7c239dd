from __future__ import annotations

import pytest

from flbuild.errors import VerificationError
from flbuild.finding import Finding
from flbuild.verify.report import as_values, lines, raise_if_failed

FINDINGS = [
    Finding("error", "packages", "numpy", "it is missing", "build again"),
    Finding("warning", "wheels", "1 of 2", "not compared"),
    Finding("error", "packages", "torch", "it is missing", "build again"),
]


def test_findings_are_grouped_by_check():
    assert lines(FINDINGS) == [
        "packages:",
        "  error    numpy: it is missing",
        "  error    torch: it is missing",
        "wheels:",
        "  warning  1 of 2: not compared",
    ]


def test_an_error_ends_the_command_with_exit_code_8_and_each_remedy_once():
    with pytest.raises(VerificationError) as caught:
        raise_if_failed(FINDINGS)
    assert caught.value.exit_code == 8
    assert caught.value.what == "2 errors found (packages)"
    assert caught.value.remedy == "build again"


def test_warnings_do_not_fail():
    raise_if_failed(FINDINGS[1:2])


def test_json_says_whether_it_passed():
    assert as_values(FINDINGS)["passed"] is False
    assert as_values(FINDINGS[1:2], files=3) == {
        "passed": True,
        "files": 3,
        "findings": [
            {
                "severity": "warning",
                "check": "wheels",
                "subject": "1 of 2",
                "message": "not compared",
                "remedy": None,
            }
        ],
    }
