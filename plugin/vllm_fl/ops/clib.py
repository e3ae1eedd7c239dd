"""The ``_moe_C`` operators vLLM calls unconditionally, where its compiled library is absent.

Schemas follow vLLM 0.28.0, ``csrc/libtorch_stable/moe/torch_bindings.cpp``. An operator that exists is kept.
"""

from __future__ import annotations

from functools import cache

import torch

from vllm_fl.dispatch import bind
from vllm_fl.ops.fused_moe import router
from vllm_fl.ops.fused_moe.routing import group_by_expert, local_experts


def _write(
    routes: router.Routes, weights: torch.Tensor, ids: torch.Tensor, source_rows: torch.Tensor
) -> None:
    weights.copy_(routes.weights)
    ids.copy_(routes.ids)
    tokens, top_k = ids.shape
    rows = torch.arange(tokens, device=ids.device)[:, None]
    source_rows.copy_(rows + tokens * torch.arange(top_k, device=ids.device))


def topk_softmax(
    topk_weights: torch.Tensor,
    topk_indices: torch.Tensor,
    token_expert_indices: torch.Tensor,
    gating_output: torch.Tensor,
    renormalize: bool,
    bias: torch.Tensor | None,
    is_padding: torch.Tensor | None,
) -> None:
    routes = router.choose(
        router.softmax_scores(gating_output),
        topk_indices.shape[1],
        bias=bias,
        renormalize=renormalize,
        is_padding=is_padding,
    )
    _write(routes, topk_weights, topk_indices, token_expert_indices)


def topk_sigmoid(
    topk_weights: torch.Tensor,
    topk_indices: torch.Tensor,
    token_expert_indices: torch.Tensor,
    gating_output: torch.Tensor,
    renormalize: bool,
    bias: torch.Tensor | None,
    routed_scaling_factor: float,
    is_padding: torch.Tensor | None,
) -> None:
    routes = router.choose(
        router.sigmoid_scores(gating_output),
        topk_indices.shape[1],
        bias=bias,
        renormalize=renormalize,
        scaling=routed_scaling_factor,
        is_padding=is_padding,
    )
    _write(routes, topk_weights, topk_indices, token_expert_indices)


def topk_softplus_sqrt(
    topk_weights: torch.Tensor,
    topk_indices: torch.Tensor,
    token_expert_indices: torch.Tensor,
    gating_output: torch.Tensor,
    renormalize: bool,
    routed_scaling_factor: float,
    bias: torch.Tensor | None,
    input_ids: torch.Tensor | None,
    tid2eid: torch.Tensor | None,
    is_padding: torch.Tensor | None,
) -> None:
    if (input_ids is None) != (tid2eid is None):
        raise ValueError("A table of experts by token id needs the token ids, and the other way round")
    routes = router.choose(
        router.sqrt_softplus_scores(gating_output),
        topk_indices.shape[1],
        bias=bias,
        renormalize=renormalize,
        scaling=routed_scaling_factor,
        given_ids=None
        if tid2eid is None or input_ids is None
        else router.table_experts(tid2eid, input_ids)[:, : topk_indices.shape[1]],
        is_padding=is_padding,
    )
    _write(routes, topk_weights, topk_indices, token_expert_indices)


def grouped_topk(
    scores: torch.Tensor,
    n_group: int,
    topk_group: int,
    topk: int,
    renormalize: bool,
    routed_scaling_factor: float,
    bias: torch.Tensor,
    scoring_func: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """``scoring_func`` 0: ``scores`` are scores; 1: they are logits of a sigmoid."""
    if scoring_func not in (0, 1):
        raise ValueError(f"grouped_topk knows the scoring functions 0 and 1, not {scoring_func}")
    routes = router.choose_in_groups(
        router.sigmoid_scores(scores) if scoring_func else scores.float(),
        topk,
        groups=n_group,
        kept_groups=topk_group,
        bias=bias,
        renormalize=renormalize,
        scaling=routed_scaling_factor,
    )
    return routes.weights, routes.ids.to(torch.int32)


def moe_sum(
    input: torch.Tensor,
    output: torch.Tensor,
    topk_ids: torch.Tensor | None = None,
    expert_map: torch.Tensor | None = None,
) -> None:
    """Sum (tokens, top_k, hidden) over top_k, without the slots whose expert is not on this rank."""
    if topk_ids is not None and expert_map is not None:
        absent = local_experts(topk_ids, expert_map, expert_map.shape[0]) < 0
        input = input.masked_fill(absent[..., None], 0.0)
    output.copy_(input.float().sum(1))


def moe_align_block_size(
    topk_ids: torch.Tensor,
    num_experts: int,
    block_size: int,
    sorted_token_ids: torch.Tensor,
    experts_ids: torch.Tensor,
    num_tokens_post_pad: torch.Tensor,
    maybe_expert_map: torch.Tensor | None,
) -> None:
    """Place routes by expert, each expert's places rounded up to whole blocks.

    Fills the route in each place (the number of routes where there is none), the expert of each block (-1
    past the last used block) and the number of used places.
    """
    if maybe_expert_map is not None:
        maybe_expert_map = maybe_expert_map[:num_experts]
    grouped = group_by_expert(local_experts(topk_ids, maybe_expert_map, num_experts), num_experts)
    blocks = (grouped.counts + block_size - 1) // block_size
    last_block = blocks.cumsum(0)
    # A place is the start of the expert's first block plus the route's rank among the expert's routes.
    shift = (last_block - blocks) * block_size - (grouped.counts.cumsum(0) - grouped.counts)
    order = torch.arange(topk_ids.numel(), device=topk_ids.device)
    used = grouped.experts < num_experts
    places = order + shift.index_select(0, grouped.experts.clamp(max=num_experts - 1))
    sorted_token_ids.fill_(topk_ids.numel())
    # One more place takes the routes that have none.
    padded = torch.cat([sorted_token_ids, sorted_token_ids.new_zeros(1)])
    padded.index_copy_(
        0, places.masked_fill(~used, sorted_token_ids.numel()), grouped.routes.to(sorted_token_ids.dtype)
    )
    sorted_token_ids.copy_(padded[:-1])
    block = torch.arange(experts_ids.numel(), device=topk_ids.device)
    owner = torch.searchsorted(last_block, block, right=True)
    experts_ids.copy_(owner.masked_fill(owner >= num_experts, -1))
    num_tokens_post_pad.copy_(last_block[-1:] * block_size)


SCHEMAS = """
topk_softmax(Tensor! topk_weights, Tensor! topk_indices, Tensor! token_expert_indices, Tensor gating_output,
    bool renormalize, Tensor? bias, Tensor? is_padding) -> ()
topk_sigmoid(Tensor! topk_weights, Tensor! topk_indices, Tensor! token_expert_indices, Tensor gating_output,
    bool renormalize, Tensor? bias, float routed_scaling_factor, Tensor? is_padding) -> ()
topk_softplus_sqrt(Tensor! topk_weights, Tensor! topk_indices, Tensor! token_expert_indices,
    Tensor gating_output, bool renormalize, float routed_scaling_factor, Tensor? bias, Tensor? input_ids,
    Tensor? tid2eid, Tensor? is_padding) -> ()
grouped_topk(Tensor scores, int n_group, int topk_group, int topk, bool renormalize,
    float routed_scaling_factor, Tensor bias, int scoring_func) -> (Tensor, Tensor)
moe_sum(Tensor input, Tensor! output, Tensor? topk_ids=None, Tensor? expert_map=None) -> ()
moe_align_block_size(Tensor topk_ids, int num_experts, int block_size, Tensor! sorted_token_ids,
    Tensor! experts_ids, Tensor! num_tokens_post_pad, Tensor? maybe_expert_map) -> ()
"""
"""Indented lines continue the one before. Each is implemented by the function of its name above, ..."""

DISPATCHED = ("topk_softmax", "grouped_topk", "moe_sum", "moe_align_block_size")
"""... except that these ask the dispatch policy, for which that function is the reference."""


@cache
def define_missing_operators() -> tuple[torch.library.Library, tuple[str, ...]]:
    """Define what ``torch.ops._moe_C`` lacks. Returns the library, which must stay alive, and the names."""
    library = torch.library.Library("_moe_C", "FRAGMENT")
    names = []
    for schema in SCHEMAS.replace("\n    ", " ").strip().splitlines():
        name = schema.partition("(")[0]
        if hasattr(torch.ops._moe_C, name):
            continue
        library.define(schema)
        function = bind(name) if name in DISPATCHED else globals()[name]
        library.impl(name, function, "CompositeExplicitAutograd")
        names.append(name)
    return library, tuple(names)
