"""A tensor that borrows another one's memory. Rung 5: only a GPU's tensors can be borrowed."""

from __future__ import annotations

import pytest
import torch
from vllm_fl.compat.pinned_views import view_of_pinned
from vllm_fl.ops.borrowed import define_weak_reference, weak_ref_tensor

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


def test_memory_that_is_not_pinned_is_refused() -> None:
    with pytest.raises(ValueError, match="pin_memory"):
        view_of_pinned(torch.zeros(4))


@needs_gpu
def test_the_gpu_reads_and_writes_pinned_memory_where_it_is() -> None:
    host = torch.zeros(3, 5, dtype=torch.int32).pin_memory()
    seen = view_of_pinned(host)
    assert seen.is_cuda
    host[1, 2] = 7
    assert int(seen.sum()) == 7
    seen[2, 4] = 9
    torch.cuda.synchronize()
    assert int(host[2, 4]) == 9
