from __future__ import annotations

from datetime import date

import pytest

from flbuild.finding import Finding
from flbuild.recipe.model import Waiver
from flbuild.verify.waivers import apply_waivers

FINDING = Finding("error", "requirements", "opencv needs numpy>=2", "numpy 1.26.4 is installed")
TODAY = date(2026, 6, 1)


def waiver(**changes):
    values = {
        "check": "requirements",
        "subject": "opencv needs numpy>=2",
        "reason": "video input is not used",
        "expires": date(2027, 3, 1),
    }
    return Waiver(**{**values, **changes})


def review(findings, *waivers, today=TODAY):
    return list(apply_waivers(findings, waivers, today))


def test_B25_a_known_conflict_passes_and_stays_visible():
    (finding,) = review([FINDING], waiver())
    assert finding.severity == "info"
    assert finding.message.endswith("waived until 2027-03-01: video input is not used")


def test_B25_a_new_conflict_fails():
    new = Finding("error", "requirements", "opencv needs numpy>=3", "numpy 1.26.4 is installed")
    assert new in review([FINDING, new], waiver())


def test_B25_a_waiver_that_nothing_needs_warns():
    (finding,) = review([], waiver())
    assert (finding.severity, finding.check, finding.subject) == (
        "warning",
        "requirements",
        "opencv needs numpy>=2",
    )


@pytest.mark.parametrize("today", [date(2027, 3, 1), date(2028, 1, 1)])
def test_B25_an_expired_waiver_fails_from_its_day_on(today):
    (finding,) = review([FINDING], waiver(), today=today)
    assert finding.severity == "error"
    assert "its waiver expired on 2027-03-01" in finding.message


def test_B25_a_waiver_counts_for_its_check_only():
    assert FINDING in review([FINDING], waiver(check="forbidden"))


def test_B25_a_whole_image_passes_with_its_waiver_only(case):
    case.add("opencv", "4.13", requires=["numpy>=2"])
    assert case.errors() == ["opencv needs numpy>=2: numpy 1.26.4 is installed"]
    case.recipe["waivers"] = [waiver().model_dump()]
    assert case.errors() == []
