from __future__ import annotations

import sys

import pytest

from flbuild.doctor.check_python import python


@pytest.mark.parametrize(
    ("version", "severity"),
    [((3, 9), "error"), ((3, 10), "info"), ((3, 13), "info"), ((3, 14), "error")],
)
def test_versions_that_are_tested_are_supported(machine, monkeypatch, version, severity):
    monkeypatch.setattr(sys, "version_info", version)
    (finding,) = python(machine())
    assert finding.severity == severity
