"""Dispatched operators on a device of vLLM's own, where vLLM compiles the model unless told otherwise.

vLLM's compiler writes its own code for activations, norms and rotary embeddings. Where the policy names
FlagGems first for one of them, the compiled model calls the dispatched operator instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vllm_fl.dispatch.backends.flaggems import leads
from vllm_fl.dispatch.settings import load_settings

if TYPE_CHECKING:
    from vllm.config import VllmConfig
    from vllm.config.kernel import IrOpPriorityConfig

OPERATORS = ("silu_and_mul", "gelu_and_mul", "rotary_embedding", "rms_norm")
"""Those that layers of vLLM stand on, by the names of their switches."""

NORMS = ("rms_norm", "fused_add_rms_norm")
"""vLLM's IR operators for which the plugin has a provider, both on the dispatched ``rms_norm``."""


def led_by_flaggems() -> frozenset[str]:
    """The operators that FlagGems is to run in this process, by policy and lists."""
    settings = load_settings()
    enabled = settings.environment.oot_layer_enabled
    return frozenset(name for name in OPERATORS if enabled(name) and leads(settings, name))


def enable_custom_ops(config: VllmConfig) -> None:
    """Have vLLM call the layers of ``led_by_flaggems`` instead of compiling what they compute.

    What the user says about one of them in ``custom_ops`` wins.
    """
    chosen = config.compilation_config.custom_ops
    for name in sorted(led_by_flaggems() - {"rms_norm"}):
        if not {f"+{name}", f"-{name}"} & set(chosen):
            chosen.append(f"+{name}")


def prefer_norms(priority: IrOpPriorityConfig) -> IrOpPriorityConfig:
    """Put the plugin's provider first for the norms, if FlagGems is to run them."""
    if "rms_norm" in led_by_flaggems():
        for name in NORMS:
            setattr(priority, name, ["fl", *getattr(priority, name)])
    return priority
