"""Layers and operators that replace vLLM's, or that its build lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vllm_fl.envs import Environment

LAYERS: tuple[tuple[str | None, str, str], ...] = (
    (None, "QwenGatedDeltaNetAttention", "vllm_fl.ops.gdn.QwenGatedDeltaNetAttentionFL"),
    (
        "unquantized_fused_moe_method",
        "UnquantizedFusedMoEMethod",
        "vllm_fl.ops.fused_moe.layer.UnquantizedFusedMoEMethodFL",
    ),
)
"""Name in the environment table (None: always on), name of vLLM's class, our class."""


def register_layers(environment: Environment) -> None:
    """Register layers and operators of an out-of-tree device. Calling it again adds nothing."""
    from vllm.model_executor.custom_op import op_registry_oot
    from vllm.platforms import current_platform
    from vllm.utils.import_utils import resolve_obj_by_qualname
    from vllm.v1.attention.backends.mla.prefill.registry import (
        MLAPrefillBackendEnum,
        register_mla_prefill_backend,
    )

    from vllm_fl.ops.clib import define_missing_operators

    if not current_platform.is_out_of_tree():
        return
    define_missing_operators()
    register_mla_prefill_backend(MLAPrefillBackendEnum.FLASH_ATTN, "vllm_fl.attention.mla.InlinePrefill")
    for name, replaced, ours in LAYERS:
        if name is not None and not environment.oot_layer_enabled(name):
            continue
        layer = resolve_obj_by_qualname(ours)
        registered = op_registry_oot.get(replaced)
        if registered is layer:
            continue
        if registered is not None:
            raise ValueError(
                f"{replaced} is replaced by {registered.__module__}.{registered.__name__} already, so {ours} "
                "cannot replace it. Let VLLM_PLUGINS name one of the two plugins"
            )
        _parent(layer, replaced).register_oot(name=replaced)(layer)


def _parent(layer: type, replaced: str) -> type:
    return next(base for base in layer.__mro__ if base.__name__ == replaced)
