"""A tensor that borrows another one's memory. Rung 5: only a GPU's tensors can be borrowed."""

from __future__ import annotations

import pytest
import torch
from vllm_fl.ops.weak_reference import define_weak_reference, weak_ref_tensor

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")


def test_the_operator_is_defined_once() -> None:
    assert define_weak_reference() is define_weak_reference()
    assert hasattr(torch.ops._C, "weak_ref_tensor")


@needs_gpu
def test_a_borrowed_tensor_sees_the_same_values_and_keeps_nothing_alive() -> None:
    base = torch.arange(24.0, device="cuda").view(4, 6)
    view = base[1:, 2:5]
    borrowed = weak_ref_tensor(view)
    assert torch.equal(borrowed, view)
    assert (borrowed.stride(), borrowed.data_ptr()) == (view.stride(), view.data_ptr())
    base[2, 3] = -1.0
    assert borrowed[1, 1] == -1.0
    before = torch.cuda.memory_allocated()
    del base, view
    assert torch.cuda.memory_allocated() < before
