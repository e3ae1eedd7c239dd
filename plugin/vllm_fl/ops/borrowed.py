"""Tensors over memory that somebody else keeps alive, where vLLM's compiled library is absent."""

from __future__ import annotations

from functools import cache

import torch


def borrow(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """The memory of ``tensor`` as a CUDA tensor on ``device``, with its dtype, shape and strides.

    It keeps nothing alive. ``tensor`` is on that device, or in pinned host memory, which CUDA maps at the
    same address. Made with what torch's own CUDA graph trees use to rebuild tensors of a memory pool.
    """
    storage = tensor.untyped_storage()
    borrowed = torch._C._construct_storage_from_data_pointer(storage.data_ptr(), device, storage.nbytes())
    metadata = {
        "nbytes": storage.nbytes(),
        "data_ptr": storage.data_ptr(),
        "size": tensor.shape,
        "stride": tensor.stride(),
        "dtype": tensor.dtype,
        "device": device,
        "storage_offset": tensor.storage_offset(),
    }
    return torch._C._construct_CUDA_Tensor_From_Storage_And_Metadata(metadata, borrowed)


def weak_ref_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory without keeping it alive, as a captured graph's memory pool does that."""
    return borrow(tensor, tensor.device)


@cache
def define_weak_reference() -> torch.library.Library:
    """Define ``_C::weak_ref_tensor`` if it does not exist. Returns the library, which must stay alive."""
    library = torch.library.Library("_C", "FRAGMENT")
    if not hasattr(torch.ops._C, "weak_ref_tensor"):
        library.define("weak_ref_tensor(Tensor input) -> Tensor")
        library.impl("weak_ref_tensor", weak_ref_tensor, "CUDA")
    return library
