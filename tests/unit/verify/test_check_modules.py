from __future__ import annotations

import pytest

FLAGTREE = {"name": "flagtree", "version": "0.6", "index": "flagos", "provides_modules": {"triton": "3.5.1"}}
TRITON = {"triton/__init__.py": b"flagtree\n", "triton/language.py": b""}


@pytest.fixture
def flagtree(case):
    case.recipe["packages"] = [FLAGTREE]
    case.add("flagtree", "0.6", files=TRITON)
    return case


def test_a_module_that_its_provider_owns_is_fine(flagtree):
    assert flagtree.errors("modules") == []


def test_B07_another_distribution_that_wrote_the_module_is_found(flagtree):
    flagtree.install("triton", "3.2", files={"triton/__init__.py": b"triton\n"})
    assert flagtree.errors("modules") == ["triton: triton also wrote files of it, over those of flagtree"]


def test_B14_the_two_providers_are_found_in_either_order(case):
    case.recipe["packages"] = [FLAGTREE]
    case.install("triton", "3.2", files={"triton/__init__.py": b"triton\n"})
    case.add("flagtree", "0.6", files=TRITON)
    assert case.errors("modules") == ["triton: triton also wrote files of it, over those of flagtree"]


def test_B11_a_provider_that_owns_nothing_is_found(case):
    case.recipe["packages"] = [FLAGTREE]
    assert case.errors("modules") == ["triton: no file of it belongs to flagtree; it belongs to nobody"]
