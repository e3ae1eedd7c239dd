"""Operators with several implementations, one of them chosen by policy.

Layers bind an operator once, ``silu_and_mul = bind("silu_and_mul")``, and call it. Nothing here imports torch
or vLLM; implementations do when they are chosen.
"""

from __future__ import annotations

from vllm_fl.dispatch.default import (
    bind,
    call_op,
    get_default_manager,
    reset_default_manager,
    resolve_op,
    with_allowed_vendors,
    with_denied_vendors,
    with_preference,
    with_strict_mode,
)
from vllm_fl.dispatch.manager import OpManager
from vllm_fl.dispatch.policy import Policy, policy_context
from vllm_fl.dispatch.registry import OpRegistry
from vllm_fl.dispatch.runtime import agree_with_other_ranks, start_worker_runtime
from vllm_fl.dispatch.types import DispatchUnsupported, OpImpl

__all__ = [
    "DispatchUnsupported",
    "OpImpl",
    "OpManager",
    "OpRegistry",
    "Policy",
    "agree_with_other_ranks",
    "bind",
    "call_op",
    "get_default_manager",
    "policy_context",
    "reset_default_manager",
    "resolve_op",
    "start_worker_runtime",
    "with_allowed_vendors",
    "with_denied_vendors",
    "with_preference",
    "with_strict_mode",
]
