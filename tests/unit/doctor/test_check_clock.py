from __future__ import annotations

from datetime import date

from flbuild.doctor.check_clock import clock


def test_a_clock_that_was_reset_is_found(machine):
    assert [finding.severity for finding in clock(machine(), date(1970, 1, 1))] == ["error"]
    assert [finding.severity for finding in clock(machine())] == ["info"]
