"""Real gloo ranks settle on the same implementations. Rung 1: which ones is worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing
from vllm_fl.dispatch.agreement import agree
from vllm_fl.dispatch.manager import OpManager
from vllm_fl.dispatch.policy import Policy
from vllm_fl.dispatch.types import OpImpl

WORLD = 2


def gathered(report: Any) -> list[Any]:
    reports: list[Any] = [None] * WORLD
    dist.all_gather_object(reports, report)
    return reports


def manager_of(rank: int, fast: Callable[[Any], str], *, has_fast: bool = True) -> OpManager:
    manager = OpManager()
    manager.rank = rank
    if has_fast:
        manager.registry.register_impl(OpImpl("op", "default.flagos", "flagos", fast))
    manager.registry.register_impl(OpImpl("op", "reference.torch", "reference", lambda x: "slow"))
    return manager


def fails_on_the_last_rank(rank: int) -> None:
    """The profile run falls back on one rank only; from then on both choose alike."""

    def fast(x: torch.Tensor) -> str:
        if rank == WORLD - 1:
            raise NotImplementedError("no kernel for this shape")
        return "fast"

    manager = manager_of(rank, fast)
    op, x = manager.bind("op"), torch.zeros(1)
    assert op(x) == ("slow" if rank == WORLD - 1 else "fast")
    agree(manager, gathered)
    assert op(x) == "slow"


def is_missing_on_the_first_rank(rank: int) -> None:
    manager = manager_of(rank, lambda x: "fast", has_fast=rank != 0)
    agree(manager, gathered)
    assert manager.bind("op")(torch.zeros(1)) == "slow"


def fails_after_the_agreement(rank: int) -> None:
    broken = []

    def fast(x: torch.Tensor) -> str:
        if broken:
            raise NotImplementedError("a new shape")
        return "fast"

    manager = manager_of(rank, fast)
    op, x = manager.bind("op"), torch.zeros(1)
    agree(manager, gathered)
    assert op(x) == "fast"
    broken.append(True)
    with pytest.raises(RuntimeError, match=f"failed on rank {rank} after all ranks agreed"):
        op(x)


def follows_another_policy(rank: int) -> None:
    manager = manager_of(rank, lambda x: "fast")
    manager.policy = Policy(prefer="flagos" if rank else "reference")
    with pytest.raises(RuntimeError, match="Ranks follow different dispatch policies"):
        agree(manager, gathered)


SCENES = (
    fails_on_the_last_rank,
    is_missing_on_the_first_rank,
    fails_after_the_agreement,
    follows_another_policy,
)


def run_rank(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=WORLD)
    for scene in SCENES:
        scene(rank)
        dist.barrier()
    dist.destroy_process_group()


def test_two_ranks_choose_alike_whatever_failed_on_one_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    torch.multiprocessing.start_processes(run_rank, (str(tmp_path),), nprocs=WORLD, start_method="fork")
