"""NVIDIA GPUs: vLLM's own kernels."""

from __future__ import annotations

from vllm_fl.devices.cuda import has_extension
from vllm_fl.dispatch.registry import OpRegistry
from vllm_fl.dispatch.types import Deferred, OpImpl

_OPERATORS = (
    "silu_and_mul",
    "gelu_and_mul",
    "rms_norm",
    "rotary_embedding",
    "topk_softmax",
    "grouped_topk",
    "moe_align_block_size",
    "moe_sum",
    "invoke_fused_moe_triton_kernel",
    "dynamic_per_token_quant_int8",
)

_IN_PLACE = frozenset({"rms_norm", "rotary_embedding"})


def register_builtins(registry: OpRegistry) -> None:
    package = __name__.rpartition(".")[0]
    registry.register_many(
        OpImpl(
            op_name,
            "vendor.cuda",
            "vendor",
            Deferred(f"{package}.ops:{op_name}", has_extension),
            vendor="cuda",
            may_mutate=op_name in _IN_PLACE,
        )
        for op_name in _OPERATORS
    )
