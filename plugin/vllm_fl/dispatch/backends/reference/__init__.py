"""The formula of every operator in plain torch, computed in fp32. They run on any device."""

from __future__ import annotations

from vllm_fl.dispatch.registry import OpRegistry
from vllm_fl.dispatch.types import Deferred, OpImpl

_FUNCTIONS = {
    "silu_and_mul": f"{__name__}.activation:silu_and_mul",
    "gelu_and_mul": f"{__name__}.activation:gelu_and_mul",
    "rms_norm": f"{__name__}.normalization:rms_norm",
    "rotary_embedding": f"{__name__}.rotary:rotary_embedding",
    "attention_backend": f"{__name__}.attention:attention_backend",
    "topk_softmax": "vllm_fl.ops.clib:topk_softmax",
    "grouped_topk": "vllm_fl.ops.clib:grouped_topk",
    "moe_align_block_size": "vllm_fl.ops.clib:moe_align_block_size",
    "moe_sum": "vllm_fl.ops.clib:moe_sum",
    "dynamic_per_token_quant_int8": f"{__name__}.quantization:dynamic_per_token_quant_int8",
}

_IN_PLACE = frozenset({"rotary_embedding"})


def register_builtins(registry: OpRegistry) -> None:
    registry.register_many(
        OpImpl(
            op_name,
            "reference.torch",
            "reference",
            Deferred(target),
            may_mutate=op_name in _IN_PLACE,
        )
        for op_name, target in _FUNCTIONS.items()
    )
