"""Layers and operators that replace vLLM's, or that its build lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from vllm_fl.envs import Environment


class Layer(NamedTuple):
    """A class of vLLM and what replaces it."""

    switch: str | None
    """Its name in the ``VLLM_FL_OOT_*`` lists; None: it is always replaced, nothing else runs it."""
    replaced: str
    ours: str


DISPATCHED = (
    Layer("silu_and_mul", "SiluAndMul", "vllm_fl.ops.activation.SiluAndMulFL"),
    Layer("gelu_and_mul", "GeluAndMul", "vllm_fl.ops.activation.GeluAndMulFL"),
    Layer("rotary_embedding", "RotaryEmbedding", "vllm_fl.ops.rotary.RotaryEmbeddingFL"),
    Layer("rotary_embedding", "Llama3RotaryEmbedding", "vllm_fl.ops.rotary.Llama3RotaryEmbeddingFL"),
    Layer(
        "rotary_embedding",
        "LinearScalingRotaryEmbedding",
        "vllm_fl.ops.rotary.LinearScalingRotaryEmbeddingFL",
    ),
    Layer(
        "rotary_embedding", "YaRNScalingRotaryEmbedding", "vllm_fl.ops.rotary.YaRNScalingRotaryEmbeddingFL"
    ),
)
"""Layers that ask the dispatch policy for their operator. Norms do so through ``ir_kernels``."""

OUT_OF_TREE = (
    Layer(
        "unquantized_fused_moe_method",
        "UnquantizedFusedMoEMethod",
        "vllm_fl.ops.fused_moe.layer.UnquantizedFusedMoEMethodFL",
    ),
    Layer(None, "QwenGatedDeltaNetAttention", "vllm_fl.ops.gdn.QwenGatedDeltaNetAttentionFL"),
)
"""Layers vLLM has no implementation of on devices that are not its own."""


def register_layers(environment: Environment) -> None:
    """Replace what this process's device needs replaced. Calling it again adds nothing.

    On a device of vLLM's own (NVIDIA) only FlagGems is a reason to replace a layer, and only where the policy
    names it first. The switch ``fused_moe`` stands for the routing operators of mixture-of-experts layers.

    Raises ValueError when another plugin has replaced the same class.
    """
    from vllm.platforms import current_platform

    if not current_platform.is_out_of_tree():
        from vllm_fl.compilation.dispatched import led_by_flaggems

        led = led_by_flaggems()
        _replace(tuple(layer for layer in DISPATCHED if layer.switch in led), environment)
        return
    from vllm.v1.attention.backends.mla.prefill.registry import (
        MLAPrefillBackendEnum,
        register_mla_prefill_backend,
    )

    from vllm_fl.ops.clib import define_missing_operators

    if environment.oot_layer_enabled("fused_moe"):
        define_missing_operators()
    if current_platform.support_static_graph_mode():
        from vllm_fl.ops.borrowed import define_weak_reference

        define_weak_reference()
    register_mla_prefill_backend(MLAPrefillBackendEnum.FLASH_ATTN, "vllm_fl.attention.mla.InlinePrefill")
    _replace(DISPATCHED + OUT_OF_TREE, environment)


def _replace(layers: tuple[Layer, ...], environment: Environment) -> None:
    from vllm.model_executor.custom_op import op_registry_oot
    from vllm.utils.import_utils import resolve_obj_by_qualname

    for switch, replaced, ours in layers:
        if switch is not None and not environment.oot_layer_enabled(switch):
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
        # The base class knows whether it is registered as an operator or as a layer.
        next(base for base in layer.__mro__ if base.__name__ == replaced).register_oot(name=replaced)(layer)
