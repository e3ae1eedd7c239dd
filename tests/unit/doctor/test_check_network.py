from __future__ import annotations

import pytest

from flbuild.doctor.check_network import indexes, registries
from flbuild.settings import RegistrySettings

DEAD = "http://127.0.0.1:9/simple/"


def test_an_index_that_answers_is_fine_whatever_its_status(machine, fake_index):
    (finding,) = indexes(machine(indexes={"pypi": fake_index.url()}))
    assert (finding.severity, finding.subject) == ("info", "pypi")


def test_the_default_index_is_needed(machine):
    (finding,) = indexes(machine(indexes={"pypi": DEAD}))
    assert finding.severity == "error"
    assert "FLBUILD_INDEX_PYPI_URL" in finding.remedy


def test_another_index_matters_to_the_recipes_that_name_it(machine, recipe, tmp_path):
    package = {"name": "flagtree", "version": "1", "index": "flagos"}
    ready = machine(indexes={"pypi": str(tmp_path), "flagos": DEAD}, recipes=[recipe(packages=[package])])
    found = {finding.subject: finding for finding in indexes(ready)}
    assert found["pypi"].severity == "info"
    assert found["flagos"].severity == "warning"
    assert "needed by demo" in found["flagos"].message


@pytest.mark.parametrize("place", ["/nowhere/wheels", None])
def test_an_index_that_is_no_place_is_an_error(machine, place):
    (finding,) = indexes(machine(indexes={"pypi": place}))
    assert finding.severity == "error"


def test_credentials_of_an_index_are_not_shown(machine):
    (finding,) = indexes(machine(indexes={"pypi": "http://user:hunter2@127.0.0.1:9/simple/"}))
    assert "hunter2" not in finding.message


def test_a_registry_that_does_not_answer_is_no_reason_to_fail(machine, recipe):
    (finding,) = registries(machine(recipes=[recipe()]))
    assert (finding.severity, finding.subject) == ("warning", "127.0.0.1:9")
    assert "FLBUILD_REGISTRY_127_0_0_1_9_MIRROR" in finding.remedy


def test_a_registry_is_asked_where_a_mirror_says(machine, recipe, fake_index):
    place = f"127.0.0.1:{fake_index.port}"
    ready = machine(
        recipes=[recipe(image={"repository": "harbor.example.org/x", "tag": "x"})],
        registries={"harbor.example.org": RegistrySettings(mirror=f"{place}/proxy")},
    )
    (finding,) = registries(ready)
    assert (finding.severity, finding.message) == ("info", f"answers at {place}")
