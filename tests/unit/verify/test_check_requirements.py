from __future__ import annotations

import pytest


def test_B25_an_unmet_requirement_is_an_error_named_for_a_waiver(case):
    case.add("opencv", "4.13", requires=["numpy>=2"])
    assert case.errors("requirements") == ["opencv needs numpy>=2: numpy 1.26.4 is installed"]


def test_B25_a_requirement_on_what_is_not_installed_is_an_error(case):
    case.add("opencv", "4.13", requires=["scipy"])
    assert case.errors("requirements") == ["opencv needs scipy: scipy is not installed"]


@pytest.mark.parametrize(("platform", "found"), [("linux/amd64", 1), ("linux/arm64", 0)])
def test_B08_markers_are_those_of_the_images_platform(case, platform, found):
    case.recipe["platform"] = platform
    case.add("xgrammar", "1.0", requires=['triton; platform_machine == "x86_64"'])
    assert len(case.errors("requirements")) == found


def test_requirements_of_extras_do_not_count(case):
    case.add("opencv", "4.13", requires=['scipy; extra == "fast"'])
    assert case.errors("requirements") == []


def test_a_prerelease_or_local_version_satisfies(case):
    case.add("flagtree", "0.6.2a1+ascend3.5")
    case.add("vision", "1.0", requires=["torch==2.13.0", "flagtree>=0.6.1"])
    assert case.errors("requirements") == []


def test_a_distribution_that_owns_a_module_stands_in_for_its_distribution(case):
    provided = {"name": "flagtree", "version": "0.6", "provides_modules": {"triton": "3.5.1"}}
    case.recipe["packages"] = [provided]
    case.add("gems", "5.0", requires=["triton>=3.2"])
    assert case.errors("requirements") == []
    case.add("gems2", "5.0", requires=["triton>=3.6"])
    assert case.errors("requirements") == ["gems2 needs triton>=3.6: triton 3.5.1 is installed"]


def test_a_requirement_that_cannot_be_read_is_found(case):
    case.add("old", "1.0", requires=["numpy (>=1.0"])
    assert case.errors("requirements") == ["old needs numpy (>=1.0: the requirement cannot be read"]


def test_what_is_in_an_unread_base_satisfies_and_is_said_not_to_be_checked(case, carried):
    case.image_base = True
    case.inventory = (carried("scipy", "1.17"),)
    case.add("opencv", "4.13", requires=["scipy>=1.10"])
    (finding,) = case.findings("requirements")
    assert (finding.severity, finding.subject) == ("info", "base")
