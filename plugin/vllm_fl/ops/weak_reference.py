"""``_C::weak_ref_tensor``, which vLLM's graph capture calls, where its compiled library is absent."""

from __future__ import annotations

from functools import cache

import torch


def weak_ref_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory as a tensor that does not keep it alive, as the graph's memory pool does that.

    Made with what torch's own CUDA graph trees use for it. Dtype, shape and strides are those of ``tensor``.
    """
    storage = tensor.untyped_storage()
    borrowed = torch._C._construct_storage_from_data_pointer(
        storage.data_ptr(), tensor.device, storage.nbytes()
    )
    metadata = {
        "nbytes": storage.nbytes(),
        "data_ptr": storage.data_ptr(),
        "size": tuple(tensor.shape),
        "stride": tensor.stride(),
        "dtype": tensor.dtype,
        "device": tensor.device,
        "storage_offset": tensor.storage_offset(),
    }
    return torch._C._construct_CUDA_Tensor_From_Storage_And_Metadata(metadata, borrowed)


@cache
def define_weak_reference() -> torch.library.Library:
    """Define the operator if it does not exist. Returns the library, which must stay alive."""
    library = torch.library.Library("_C", "FRAGMENT")
    if not hasattr(torch.ops._C, "weak_ref_tensor"):
        library.define("weak_ref_tensor(Tensor input) -> Tensor")
        library.impl("weak_ref_tensor", weak_ref_tensor, "CUDA")
    return library
