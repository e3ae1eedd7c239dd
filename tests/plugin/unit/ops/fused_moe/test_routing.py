"""From experts of tokens to tokens of experts. Rung 1: integers, against plain Python."""

from __future__ import annotations

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from vllm_fl.ops.fused_moe.routing import group_by_expert, local_experts


def one_by_one(ids: torch.Tensor, expert_map: torch.Tensor | None, experts: int) -> torch.Tensor:
    wanted = torch.full_like(ids, -1)
    for token in range(ids.shape[0]):
        for slot in range(ids.shape[1]):
            expert = int(ids[token, slot])
            known = experts if expert_map is None else len(expert_map)
            if 0 <= expert < known:
                local = expert if expert_map is None else int(expert_map[expert])
                wanted[token, slot] = local if 0 <= local < experts else -1
    return wanted


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("map_dtype", [torch.int32, torch.int64, None])
@pytest.mark.parametrize("shape", [(0, 2), (1, 1), (7, 8), (33, 3)])
def test_F3_look_up_equals_one_by_one_for_any_id(
    shape: tuple[int, int], dtype: torch.dtype, map_dtype: torch.dtype | None
) -> None:
    random = torch.Generator().manual_seed(shape[0])
    ids = torch.randint(-2, 12, shape, generator=random).to(dtype)
    expert_map = None
    if map_dtype is not None:
        expert_map = torch.tensor([-1, 0, 3, -1, 1, -1, 2, -1, 5, -1], dtype=map_dtype)
    local = local_experts(ids, expert_map, 4)
    assert local.dtype == dtype
    assert local.shape == ids.shape
    assert torch.equal(local, one_by_one(ids, expert_map, 4))


class ForbidIndexing(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        name = func.name()
        if name in ("aten::index.Tensor", "aten::gather"):
            pytest.fail(f"{name} was called")
        if name == "aten::index_select":
            assert args[2].dim() == 1
            assert int(args[2].min()) >= 0
        return func(*args, **(kwargs or {}))


def test_B21_the_map_is_read_by_flat_non_negative_indices() -> None:
    ids = torch.tensor([[-1, 2], [9, 1]])
    expert_map = torch.tensor([-1, 0, 1, -1])
    with ForbidIndexing():
        local = local_experts(ids, expert_map, 2)
    assert local.tolist() == [[-1, 1], [-1, 0]]


def test_expert_ids_must_be_integers() -> None:
    with pytest.raises(TypeError, match=r"must be integers, not torch\.float32"):
        local_experts(torch.zeros(1, 1), None, 4)


def test_B27_routes_are_sorted_stably_and_absent_ones_come_last() -> None:
    grouped = group_by_expert(torch.tensor([[2, -1], [0, 2], [-1, 0], [2, 1]]), 4)
    assert grouped.experts.tolist() == [0, 0, 1, 2, 2, 2, 4, 4]
    assert grouped.routes.tolist() == [2, 5, 7, 0, 3, 6, 1, 4]
    assert grouped.tokens.tolist() == [1, 2, 3, 0, 1, 3, 0, 2]
    assert grouped.counts.tolist() == [2, 1, 3, 0]


@pytest.mark.parametrize("seed", range(5))
def test_every_local_route_is_counted_once(seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    local = torch.randint(-1, 6, (40, 5), generator=random)
    grouped = group_by_expert(local, 6)
    assert grouped.counts.tolist() == [int((local == e).sum()) for e in range(6)]
    assert sorted(grouped.routes.tolist()) == list(range(200))
    assert torch.equal(grouped.tokens, grouped.routes // 5)
    used = grouped.experts < 6
    assert torch.equal(local.flatten()[grouped.routes[used]], grouped.experts[used])


def test_the_smoke_case_of_the_change_has_36_routes_in_16_and_20() -> None:
    """Six experts, two of them local; 64 routes, of which 28 are absent or elsewhere."""
    expert_map = torch.tensor([-1, 0, -1, -1, 1, -1], dtype=torch.int32)
    routes = torch.tensor([1] * 16 + [4] * 20 + [-1] * 14 + [0, 2, 3, 5] * 3 + [0, 2], dtype=torch.int32)
    order = torch.randperm(64, generator=torch.Generator().manual_seed(0))
    grouped = group_by_expert(local_experts(routes[order].view(32, 2), expert_map, 2), 2)
    assert grouped.counts.tolist() == [16, 20]
    assert int((grouped.experts < 2).sum()) == 36


class CountReads(TorchFunctionMode):
    """Counts what makes Python wait for a value of a tensor."""

    NAMES = ("item", "tolist", "cpu", "numpy", "__bool__", "__int__", "__index__", "nonzero")

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_function__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        name = getattr(func, "__name__", "")
        if name in self.NAMES:
            self.found.append(name)
        return func(*args, **(kwargs or {}))


def test_B41_a_decode_step_of_a_layer_reads_nothing_back() -> None:
    from vllm.model_executor.layers.fused_moe.activation import MoEActivation
    from vllm_fl.ops.fused_moe.experts import run_experts

    ids = torch.randint(-1, 8, (8, 2), generator=torch.Generator().manual_seed(1))
    hidden, w13, w2 = torch.randn(8, 16), torch.randn(4, 32, 16), torch.randn(4, 16, 16)
    expert_map = torch.tensor([0, -1, 1, -1, 2, -1, 3, -1])
    with CountReads() as reads:
        run_experts(hidden, w13, w2, torch.rand(8, 2), ids, MoEActivation.SILU, expert_map=expert_map)
    assert reads.found == []
    with CountReads() as reads:
        hidden.sum().item()
    assert reads.found == ["item"]


def test_B59_the_map_moves_with_its_module_and_gives_the_same_answer_every_time() -> None:
    module = torch.nn.Module()
    module.register_buffer("expert_map", torch.tensor([-1, 0, 1, -1], dtype=torch.int32), persistent=False)
    ids = torch.tensor([[1, 3], [2, 0]])
    before = module.expert_map.clone()
    moved = module.to("cpu")
    answers = [local_experts(ids, moved.expert_map, 2).tolist() for _ in range(100)]
    assert answers == [[[0, -1], [1, -1]]] * 100
    assert torch.equal(moved.expert_map, before)
