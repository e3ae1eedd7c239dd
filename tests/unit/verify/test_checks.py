from __future__ import annotations

from flbuild.verify.checks import CHECKS


def test_an_image_that_is_as_locked_has_no_findings_but_absent_wheels(case):
    findings = case.findings()
    assert [(item.severity, item.check) for item in findings] == [("warning", "wheels")]


def test_findings_come_in_the_order_of_the_checks(case):
    case.env = ["PYTHONPATH=/src"]
    case.config["architecture"] = "arm64"
    case.packages["missing"] = "1.0"
    checks = [item.check for item in case.findings()]
    assert checks == sorted(checks, key=list(CHECKS).index)
    assert {"platform", "environment", "packages"} <= set(checks)
