"""State copies of hybrid models without Triton.

``vllm.v1.worker.mamba_utils`` launches a module-level Triton kernel, ``batch_memcpy_kernel``, to move states
between cache blocks (prefix caching of hybrid models). vLLM ships a host version for its own CPU platform.
"""

from __future__ import annotations

from vllm_fl.compat import Patch


def _needed() -> bool:
    from vllm.triton_utils import HAS_TRITON

    return not HAS_TRITON


def _apply() -> None:
    import vllm.v1.worker.mamba_utils as mamba_utils
    from vllm.utils.cpu_triton_utils import batch_memcpy_kernel

    mamba_utils.batch_memcpy_kernel = batch_memcpy_kernel


HOST_STATE_COPY = Patch("vllm.v1.worker.mamba_utils.batch_memcpy_kernel", "0.28", _needed, _apply)
