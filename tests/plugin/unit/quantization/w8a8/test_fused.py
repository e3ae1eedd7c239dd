"""INT8 experts on a GPU against integers. Rung 5 against rung 1."""

from __future__ import annotations

import pytest
import torch

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")


@needs_gpu
@pytest.mark.parametrize("tokens", [1, 6, 32, 200])
def test_experts_stay_within_three_per_mille_of_the_largest_exact_value(tokens: int) -> None:
    from vllm_fl.quantization.w8a8.fused import fused_experts_int8

    from benchmarks.w8a8_experts import exact_experts, inputs

    given = inputs(tokens)
    exact = exact_experts(given)
    error = (fused_experts_int8(**given).float() - exact).abs().max() / exact.abs().max()
    # bfloat16 rounds the result to 8 bits: 2^-9 of it, beside the scales' own rounding.
    assert float(error) < 3e-3 + 2**-9
