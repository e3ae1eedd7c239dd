from __future__ import annotations

import pytest
from vllm_fl.version_gate import is_supported


@pytest.mark.parametrize("version", ["0.28.0", "0.28.0+empty", "0.28.1", "0.28.0rc2", "0.28.1.dev3+g12"])
def test_every_build_of_the_series_is_supported(version: str) -> None:
    assert is_supported(version)


@pytest.mark.parametrize("version", ["0.13.0", "0.2.8", "0.280.0", "1.0.28", "dev", ""])
def test_other_versions_are_not(version: str) -> None:
    assert not is_supported(version)
