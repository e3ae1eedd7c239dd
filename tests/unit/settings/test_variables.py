from __future__ import annotations

import pytest
from pypi_simple import PYPI_SIMPLE_ENDPOINT

from flbuild.errors import UsageError


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("FLBUILD_INDEX_PYPPI_URL", "perhaps you meant 'FLBUILD_INDEX_PYPI_URL'"),
        ("FLBUILD_INDEX_PYPI_ULR", "perhaps you meant 'FLBUILD_INDEX_PYPI_URL'"),
        ("FLBUILD_REGISTRY_QUAY_IO_MIROR", "perhaps you meant 'MIRROR'"),
        ("FLBUILD_CAHCE_DIR", "perhaps you meant 'FLBUILD_CACHE_DIR'"),
    ],
)
def test_a_misspelled_variable_is_an_error_not_silence(load, name, words):
    with pytest.raises(UsageError) as caught:
        load(**{name: "x"})
    assert name in caught.value.what
    assert words in caught.value.what


def test_other_programs_variables_are_left_alone(load):
    load(FLBUILDER_HOME="x", FLBUILD_UNRELATED_THING="x")


def test_an_empty_variable_is_no_setting(load):
    settings = load(FLBUILD_INDEX_PYPI_URL="", FLBUILD_CACHE_DIR="", FLBUILD_JOBS="", PIP_INDEX_URL="")
    assert settings.index("pypi").url == PYPI_SIMPLE_ENDPOINT


@pytest.mark.parametrize("jobs", ["0", "-1", "many", "1.5", "²"])
def test_jobs_is_a_whole_number_above_zero(load, jobs):
    with pytest.raises(UsageError, match="FLBUILD_JOBS"):
        load(FLBUILD_JOBS=jobs)


def test_a_registry_with_a_port_has_a_variable_too(load):
    registry = load(FLBUILD_REGISTRY_REG_EXAMPLE_5000_PASSWORD="secret").registry("reg.example:5000")
    assert registry.password.get_secret_value() == "secret"
