"""FlagGems' Triton kernels for the operators it has a function for."""

from __future__ import annotations

import functools
from importlib.util import find_spec

from vllm_fl.dispatch.registry import OpRegistry
from vllm_fl.dispatch.settings import Settings
from vllm_fl.dispatch.types import Deferred, OpImpl

_FUNCTIONS = {
    "silu_and_mul": ("silu_and_mul",),
    "gelu_and_mul": ("gelu_and_mul",),
    "rms_norm": ("rms_norm", "fused_add_rms_norm"),
    "rotary_embedding": ("apply_rotary_pos_emb",),
    "topk_softmax": ("topk_softmax",),
    "grouped_topk": ("grouped_topk",),
    "moe_align_block_size": ("moe_align_block_size_triton",),
    "moe_sum": ("moe_sum",),
    "invoke_fused_moe_triton_kernel": ("invoke_fused_moe_triton_kernel",),
}
"""Operators and the FlagGems functions they stand on: a list that forbids one forbids the operator."""

_IN_PLACE = frozenset({"rms_norm", "rotary_embedding"})


def register_builtins(registry: OpRegistry, settings: Settings) -> None:
    """Register what the switches and lists in ``settings`` let run, not only for torch's own operators."""
    registry.register_many(
        OpImpl(
            op_name,
            "default.flagos",
            "flagos",
            Deferred(f"{__name__}.ops:{op_name}", functools.partial(_usable, settings, functions)),
            may_mutate=op_name in _IN_PLACE,
        )
        for op_name, functions in _FUNCTIONS.items()
    )


def leads(settings: Settings, op_name: str) -> bool:
    """Whether the policy names FlagGems first for an operator and lets it run. Imports no FlagGems."""
    first = settings.policy.tokens(op_name)[0]
    return first in ("flagos", "impl:default.flagos") and _usable(
        settings, _FUNCTIONS.get(op_name, (op_name,))
    )


def _usable(settings: Settings, functions: tuple[str, ...]) -> bool:
    return settings.flaggems_allows(*functions) and find_spec("flag_gems") is not None
