"""Collectives among 2 and 4 gloo ranks. Rung 1: against what each rank computes from all ranks' inputs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing
from vllm_fl.distributed.communicator import CommunicatorFL

SHAPE = (4, 8, 12)
LAYOUTS = ("contiguous", "transposed", "strided")
# Rounds of four processes on a small machine cost the most, and layouts do not depend on their number.
LAYOUTS_BY_WORLD = {2: LAYOUTS, 4: LAYOUTS[1:2]}


def laid_out(values: torch.Tensor, layout: str) -> torch.Tensor:
    if layout == "transposed":
        return values.transpose(0, 2).contiguous().transpose(0, 2)
    if layout == "strided":
        wide = torch.zeros(*values.shape[:-1], 2 * values.shape[-1])
        wide[..., ::2] = values
        return wide[..., ::2]
    return values.clone()


def inputs(world: int, shapes: list[tuple[int, ...]]) -> list[torch.Tensor]:
    """Each rank's input, the same on every rank. Whole numbers: sums are exact in any order."""
    generator = torch.Generator().manual_seed(world)
    return [torch.randint(-9, 9, shape, generator=generator).float() for shape in shapes]


def check_equal_shares(group: CommunicatorFL, rank: int, world: int) -> None:
    everyone = inputs(world, [SHAPE] * world)
    total = torch.stack(everyone).sum(0)
    for layout in LAYOUTS_BY_WORLD[world]:
        assert torch.equal(group.all_reduce(laid_out(everyone[rank], layout)), total)
        for dim in (-3, -1, 0, 1, 2):
            mine = laid_out(everyone[rank], layout)
            assert torch.equal(group.all_gather(mine, dim), torch.cat(everyone, dim))
            assert torch.equal(group.all_gatherv(mine, dim), torch.cat(everyone, dim))
            assert torch.equal(group.reduce_scatter(mine, dim), total.chunk(world, dim)[rank])
            assert torch.equal(group.reduce_scatterv(mine, dim), total.chunk(world, dim)[rank])
            gathered = group.gather(mine, world - 1, dim)
            assert (gathered is None) == (rank != world - 1)
            if gathered is not None:
                assert torch.equal(gathered, torch.cat(everyone, dim))
            assert torch.equal(mine, everyone[rank])


def check_uneven_shares(group: CommunicatorFL, rank: int, world: int) -> None:
    for sizes in ([3, 0, 1, 2][:world], [0] * world):
        for dim in (0, 1, 2):
            shapes = [(*SHAPE[:dim], size, *SHAPE[dim + 1 :]) for size in sizes]
            everyone = inputs(world, shapes)
            for layout in LAYOUTS_BY_WORLD[world]:
                mine = laid_out(everyone[rank], layout)
                joined = torch.cat(everyone, dim)
                assert torch.equal(group.all_gatherv(mine, dim, sizes), joined)
                both = group.all_gatherv([mine, mine + 1], dim, sizes)
                assert [torch.equal(part, joined + i) for i, part in enumerate(both)] == [True, True]
                whole = inputs(world, [tuple(joined.shape)] * world)
                share = torch.stack(whole).sum(0).split(sizes, dim)[rank]
                mine = laid_out(whole[rank], layout)
                assert torch.equal(group.reduce_scatterv(mine, dim - 3, sizes), share)


def check_one_to_one(group: CommunicatorFL, rank: int, world: int) -> None:
    everyone = inputs(world, [SHAPE] * world)
    for layout in LAYOUTS_BY_WORLD[world]:
        for source in range(world):
            mine = laid_out(everyone[rank], layout)
            assert group.broadcast(mine, source) is mine
            assert torch.equal(mine, everyone[source])
        mine = laid_out(everyone[rank], layout)
        if rank == 0:
            group.send(mine)
        elif rank == 1:
            assert torch.equal(group.recv(torch.Size(SHAPE), torch.float32), everyone[0])


def check_refusals(group: CommunicatorFL, rank: int, world: int) -> None:
    x = torch.zeros(3, 5)
    refused: list[tuple[str, Callable[[], object]]] = [
        ("Dimension 2 is out of range", lambda: group.all_gather(x, 2)),
        ("Dimension -3 is out of range", lambda: group.reduce_scatterv(x, -3)),
        ("cannot be shared equally", lambda: group.reduce_scatter(x, 1)),
        ("must hold the share of each", lambda: group.all_gatherv(x, 0, [3] * (world + 1))),
        (
            "must hold the share of each",
            lambda: group.reduce_scatterv(x, 0, [3 + world, *[-1] * (world - 1)]),
        ),
        ("has 3 along dimension 0, not the 4", lambda: group.all_gatherv(x, 0, [4] * world)),
        ("do not add up to the 3", lambda: group.reduce_scatterv(x, 0, [4] * world)),
    ]
    for words, call in refused:
        with pytest.raises(ValueError, match=words):
            call()


CHECKS = (check_equal_shares, check_uneven_shares, check_one_to_one, check_refusals)


def run_rank(rank: int, world: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=world)
    # A group that numbers its ranks otherwise than the world does.
    members = dist.new_group([*range(1, world), 0], sort_ranks=False)
    for check in CHECKS:
        check(CommunicatorFL(members, device_group=members), dist.get_rank(members), world)
    dist.destroy_process_group()


def start(function: Callable[..., None], world: int, *arguments: object) -> None:
    torch.multiprocessing.start_processes(function, arguments, nprocs=world, start_method="fork")


@pytest.mark.parametrize("world", [2, 4])
def test_collectives_of_any_dimension_layout_and_share(
    world: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    start(run_rank, world, world, str(tmp_path))


def refuse_data_parallel_experts(rank: int, folder: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=1)
    world = dist.group.WORLD
    with pytest.raises(NotImplementedError, match="--data-parallel-size"):
        CommunicatorFL(world, device_group=world, unique_name="ep:0", use_all2all=True)
    CommunicatorFL(world, device_group=world, unique_name="tp:0", use_all2all=True)


def test_experts_across_data_parallel_ranks_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    start(refuse_data_parallel_experts, 1, str(tmp_path))
