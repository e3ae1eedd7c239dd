from __future__ import annotations

import pytest

from flbuild.recipe.names import forbidden_by


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("triton", "triton"),
        ("triton-ascend", "Triton_Ascend"),
        ("nvidia-cublas-cu12", "nvidia-*"),
        ("nvidia-cublas-cu12", "nvidia_*"),
        ("torch-npu", "torch?npu"),
        ("cuda-12", "cuda-1[0-2]"),
    ],
)
def test_a_pattern_forbids(name, pattern):
    assert forbidden_by(name, ["other", pattern]) == pattern


@pytest.mark.parametrize(
    ("name", "pattern"), [("triton-ascend", "triton"), ("tritonic", "triton"), ("nvidia", "nvidia-*")]
)
def test_a_pattern_leaves_other_names_alone(name, pattern):
    assert forbidden_by(name, [pattern]) is None
