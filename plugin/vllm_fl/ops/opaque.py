"""The dispatched operators as torch operators ``vllm_fl::*``, each one opaque call to torch.compile.

A tracer can follow neither the choice of an implementation nor a library's own kernels. It records one of
these instead, and the choice is made when the compiled code, or the capture of a CUDA graph, runs it. Nothing
here writes into its arguments, which keeps the compiler from copying them. Importing this module defines the
operators.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from vllm.utils.torch_utils import direct_register_custom_op

from vllm_fl.dispatch import bind

_library = torch.library.Library("vllm_fl", "FRAGMENT")

_silu_and_mul = bind("silu_and_mul")
_gelu_and_mul = bind("gelu_and_mul")
_rms_norm = bind("rms_norm")
_rotary_embedding = bind("rotary_embedding")


class Gelu(NamedTuple):
    """What the dispatched operator reads of a layer."""

    approximate: str


class Norm(NamedTuple):
    """What the dispatched operator reads of a layer."""

    weight: torch.Tensor | None
    variance_epsilon: float


def is_traced(x: torch.Tensor) -> bool:
    """Whether a tracer, not the model, is looking at ``x``."""
    return torch.compiler.is_compiling() or type(x) is not torch.Tensor


def silu_and_mul(x: torch.Tensor) -> torch.Tensor:
    return _silu_and_mul(None, x)


def gelu_and_mul(x: torch.Tensor, approximate: str) -> torch.Tensor:
    return _gelu_and_mul(Gelu(approximate), x)


def rms_norm(x: torch.Tensor, weight: torch.Tensor | None, epsilon: float) -> torch.Tensor:
    return _rms_norm(Norm(weight, epsilon), x)


def fused_add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor | None, epsilon: float
) -> tuple[torch.Tensor, torch.Tensor]:
    # Implementations may write into their arguments, which the compiler has been told does not happen.
    return _rms_norm(Norm(weight, epsilon), x.clone(), residual.clone())


def rotary_embedding(
    q: torch.Tensor,
    k: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    positions: torch.Tensor,
    interleaved: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    return _rotary_embedding(None, q, k, cos, sin, positions, interleaved, False)


def _half(x: torch.Tensor, approximate: str = "") -> torch.Tensor:
    return x.new_empty((*x.shape[:-1], x.shape[-1] // 2))


def _like(x: torch.Tensor, weight: torch.Tensor | None, epsilon: float) -> torch.Tensor:
    return torch.empty_like(x)


def _like_both(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor | None, epsilon: float
) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(x), torch.empty_like(residual)


def _like_rotated(
    q: torch.Tensor,
    k: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    positions: torch.Tensor,
    interleaved: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(q), torch.empty_like(k)


for _function, _fake in (
    (silu_and_mul, _half),
    (gelu_and_mul, _half),
    (rms_norm, _like),
    (fused_add_rms_norm, _like_both),
    (rotary_embedding, _like_rotated),
):
    direct_register_custom_op(
        _function.__name__,
        _function,
        fake_impl=_fake,
        target_lib=_library,
        dispatch_key="CompositeExplicitAutograd",
    )
