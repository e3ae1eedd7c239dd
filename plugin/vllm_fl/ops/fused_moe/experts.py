"""Unquantized experts in plain torch, as a kernel of vLLM's modular mixture-of-experts layer."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
import vllm.model_executor.layers.fused_moe.modular_kernel as mk
from vllm.model_executor.layers.fused_moe.activation import MoEActivation
from vllm.model_executor.layers.fused_moe.config import FusedMoEParallelConfig
from vllm.model_executor.layers.fused_moe.topk_weight_and_reduce import TopKWeightAndReduceNoOP
from vllm.model_executor.layers.quantization.utils.quant_utils import QuantKey

from vllm_fl.ops.fused_moe.routing import group_by_expert, local_experts


def _gelu_tanh(gate: torch.Tensor) -> torch.Tensor:
    return F.gelu(gate, approximate="tanh")


ACTIVATIONS: dict[MoEActivation, Callable[[torch.Tensor], torch.Tensor]] = {
    MoEActivation.SILU: F.silu,
    MoEActivation.SILU_NO_MUL: F.silu,
    MoEActivation.GELU: F.gelu,
    MoEActivation.GELU_NO_MUL: F.gelu,
    MoEActivation.GELU_TANH: _gelu_tanh,
    MoEActivation.GELU_TANH_NO_MUL: _gelu_tanh,
}


def activate(hidden: torch.Tensor, activation: MoEActivation, limit: float | None = None) -> torch.Tensor:
    """Activation between the two matrix products of an expert, in fp32, returned in the dtype of ``hidden``.

    Args:
        hidden: (routes, 2 * inner), gate beside up, or (routes, inner) for the ``*_no_mul`` kinds.
        limit: with SiLU, the gate is cut at ``limit`` and the up half to ``[-limit, limit]`` first.

    Raises ValueError for other activations, and for a limit with another one than SiLU.
    """
    function = ACTIVATIONS.get(activation)
    if function is None:
        raise ValueError(f"Expert activation {activation.value!r} is not supported")
    if limit is not None and activation != MoEActivation.SILU:
        raise ValueError(f"A SwiGLU limit is not supported with expert activation {activation.value!r}")
    if not activation.is_gated:
        return function(hidden.float()).to(hidden.dtype)
    gate, up = hidden.float().chunk(2, -1)
    if limit is not None:
        gate, up = gate.clamp(max=limit), up.clamp(-limit, limit)
    return (function(gate) * up).to(hidden.dtype)


def grouped_linear(
    rows: torch.Tensor, weights: torch.Tensor, counts: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """``rows @ weights[e].T`` for the rows of each expert.

    Args:
        rows: (routes, in), the first ``counts[0]`` rows for expert 0, and so on.
        weights: (experts, out, in).
        counts: (experts,) int64; rows past their sum belong to nobody.
        bias: (routes, out) added to the product.

    Returns (routes, out). Rows that belong to nobody hold anything, NaN included.
    """
    if not rows.shape[0]:
        return rows.new_empty(0, weights.shape[1])
    if _grouped_mm_takes(rows) and _grouped_mm_takes(weights):
        offsets = counts.cumsum(0).to(torch.int32)
        product = F.grouped_mm(rows, weights.transpose(1, 2), offs=offsets)
    else:
        # The number of rows of each expert is needed on the host: a shape torch's kernel refuses is rare.
        sizes = counts.tolist()
        product = rows.new_zeros(rows.shape[0], weights.shape[1])
        parts = zip(rows.split([*sizes, rows.shape[0] - sum(sizes)]), weights, strict=False)
        start = 0
        for part, weight in parts:
            torch.mm(part, weight.t(), out=product[start : start + part.shape[0]])
            start += part.shape[0]
    return product if bias is None else product + bias


def _grouped_mm_takes(tensor: torch.Tensor) -> bool:
    """torch's grouped product wants contiguous rows that start at multiples of 16 bytes."""
    aligned = all(stride * tensor.element_size() % 16 == 0 for stride in tensor.stride()[:-1])
    return aligned and tensor.stride(-1) == 1


def run_experts(
    hidden: torch.Tensor,
    w13: torch.Tensor,
    w2: torch.Tensor,
    route_weights: torch.Tensor | None,
    ids: torch.Tensor,
    activation: MoEActivation,
    *,
    expert_map: torch.Tensor | None = None,
    w13_bias: torch.Tensor | None = None,
    w2_bias: torch.Tensor | None = None,
    limit: float | None = None,
) -> torch.Tensor:
    """Weighted sum of each token's experts that are on this rank.

    Args:
        hidden: (tokens, hidden size).
        w13: (experts, 2 * inner, hidden size), gate above up; w2: (experts, hidden size, inner).
        route_weights: (tokens, top_k); None: every route counts once (weights went into the input).
        ids: (tokens, top_k) integers, global expert ids.
        expert_map, w13_bias (experts, 2 * inner), w2_bias (experts, hidden size): optional.
        limit: see :func:`activate`.

    Returns (tokens, hidden size) in the dtype of ``hidden``, summed in fp32. Tokens without a route here are
    exactly zero. Raises ValueError or TypeError for tensors that do not fit each other.
    """
    _check(hidden, w13, w2, route_weights, ids, activation)
    experts = w13.shape[0]
    grouped = group_by_expert(local_experts(ids, expert_map, experts), experts)
    computed = grouped.experts < experts
    safe = grouped.experts.clamp(max=experts - 1)
    inner = grouped_linear(
        hidden.index_select(0, grouped.tokens),
        w13,
        grouped.counts,
        None if w13_bias is None else w13_bias.index_select(0, safe),
    )
    outer = grouped_linear(
        activate(inner, activation, limit),
        w2,
        grouped.counts,
        None if w2_bias is None else w2_bias.index_select(0, safe),
    ).float()
    if route_weights is not None:
        outer = outer * route_weights.flatten().index_select(0, grouped.routes).float()[:, None]
    # Selected, not multiplied by zero: rows that nobody computed may hold NaN.
    outer = outer.masked_fill(~computed[:, None], 0.0)
    total = torch.zeros(hidden.shape[0], w2.shape[1], dtype=torch.float32, device=hidden.device)
    return total.index_add_(0, grouped.tokens, outer).to(hidden.dtype)


def _check(
    hidden: torch.Tensor,
    w13: torch.Tensor,
    w2: torch.Tensor,
    route_weights: torch.Tensor | None,
    ids: torch.Tensor,
    activation: MoEActivation,
) -> None:
    inner = w13.shape[1] // 2 if activation.is_gated else w13.shape[1]
    wanted = (w13.shape[0], hidden.shape[-1], inner)
    if hidden.dim() != 2 or w13.shape[2] != hidden.shape[1] or tuple(w2.shape) != wanted:
        raise ValueError(
            f"Experts do not fit: hidden {tuple(hidden.shape)}, w13 {tuple(w13.shape)}, w2 {tuple(w2.shape)}"
        )
    if ids.dim() != 2 or ids.shape[0] != hidden.shape[0]:
        raise ValueError(f"Expert ids {tuple(ids.shape)} do not fit {hidden.shape[0]} tokens")
    if route_weights is not None and route_weights.shape != ids.shape:
        raise ValueError(f"Route weights {tuple(route_weights.shape)} do not fit ids {tuple(ids.shape)}")
    if not hidden.dtype == w13.dtype == w2.dtype:
        raise TypeError(f"Experts of {w13.dtype} and {w2.dtype} cannot take a {hidden.dtype} input")


class TorchExperts(mk.FusedMoEExpertsModular):
    """:func:`run_experts` behind vLLM's interface. Its output is weighted and reduced already."""

    @staticmethod
    def activation_format() -> mk.FusedMoEActivationFormat:
        return mk.FusedMoEActivationFormat.Standard

    @staticmethod
    def _supports_current_device() -> bool:
        return True

    @staticmethod
    def _supports_no_act_and_mul() -> bool:
        return True

    @staticmethod
    def _supports_quant_scheme(weight_key: QuantKey | None, activation_key: QuantKey | None) -> bool:
        return weight_key is None and activation_key is None

    @staticmethod
    def _supports_activation(activation: MoEActivation) -> bool:
        return activation in ACTIVATIONS

    @staticmethod
    def _supports_parallel_config(moe_parallel_config: FusedMoEParallelConfig) -> bool:
        return not (moe_parallel_config.enable_eplb or moe_parallel_config.use_batched_activation_format)

    @staticmethod
    def _supports_batch_invariance() -> bool:
        return False

    def workspace_shapes(
        self,
        M: int,
        N: int,
        K: int,
        topk: int,
        global_num_experts: int,
        local_num_experts: int,
        expert_tokens_meta: mk.ExpertTokensMetadata | None,
        activation: MoEActivation,
    ) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        return (0,), (0,), (M, K)

    def finalize_weight_and_reduce_impl(self) -> mk.TopKWeightAndReduce:
        return TopKWeightAndReduceNoOP()

    def apply(
        self,
        output: torch.Tensor,
        hidden_states: torch.Tensor,
        w1: torch.Tensor,
        w2: torch.Tensor,
        topk_weights: torch.Tensor,
        topk_ids: torch.Tensor,
        activation: MoEActivation,
        global_num_experts: int,
        expert_map: torch.Tensor | None,
        a1q_scale: torch.Tensor | None,
        a2_scale: torch.Tensor | None,
        workspace13: torch.Tensor,
        workspace2: torch.Tensor,
        expert_tokens_meta: mk.ExpertTokensMetadata | None,
        apply_router_weight_on_input: bool,
    ) -> None:
        output.copy_(
            run_experts(
                hidden_states,
                w1,
                w2,
                None if apply_router_weight_on_input else topk_weights,
                topk_ids,
                activation,
                expert_map=expert_map,
                w13_bias=self.w1_bias,
                w2_bias=self.w2_bias,
                limit=self.activation_config.clamp_limit,
            )
        )
