"""Ascend 910C: operators of torch_npu."""

from __future__ import annotations

from vllm_fl.dispatch.registry import OpRegistry
from vllm_fl.dispatch.types import Deferred, OpImpl

_FUNCTIONS = {
    "silu_and_mul": "activation:silu_and_mul",
    "gelu_and_mul": "activation:gelu_and_mul",
    "rms_norm": "normalization:rms_norm",
    "rotary_embedding": "rotary:rotary_embedding",
    "attention_backend": "selection:attention_backend",
    "topk_softmax": "routing:topk_softmax",
    "dynamic_per_token_quant_int8": "quantization:dynamic_per_token_quant_int8",
}

_IN_PLACE = frozenset({"rotary_embedding"})

_HALVES = frozenset({"float16", "bfloat16"})
_DTYPES = {"dynamic_per_token_quant_int8": _HALVES}


def register_builtins(registry: OpRegistry) -> None:
    package = __name__.rpartition(".")[0]
    registry.register_many(
        OpImpl(
            op_name,
            "vendor.ascend",
            "vendor",
            Deferred(f"{package}.impl.{target}"),
            vendor="ascend",
            supported_dtypes=_DTYPES.get(op_name),
            may_mutate=op_name in _IN_PLACE,
        )
        for op_name, target in _FUNCTIONS.items()
    )
