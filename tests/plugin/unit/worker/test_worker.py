from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from vllm_fl.devices.base import Memory
from vllm_fl.worker.worker import WorkerFL, data_parallel_offset

GIB = 1 << 30


def parallel(**changes: Any) -> SimpleNamespace:
    values = {
        "distributed_executor_backend": "mp",
        "data_parallel_backend": "mp",
        "nnodes_within_dp": 1,
        "data_parallel_rank_local": 2,
        "data_parallel_index": 5,
        "pipeline_parallel_size": 1,
        "tensor_parallel_size": 4,
    }
    return SimpleNamespace(**{**values, **changes})


@pytest.mark.parametrize(
    ("changes", "offset"),
    [
        ({}, 8),
        ({"data_parallel_rank_local": None}, 20),
        ({"pipeline_parallel_size": 2}, 16),
        ({"distributed_executor_backend": "ray"}, 0),
        ({"data_parallel_backend": "ray"}, 0),
        ({"nnodes_within_dp": 2}, 0),
    ],
)
def test_data_parallel_ranks_of_a_host_use_different_devices(changes: dict[str, Any], offset: int) -> None:
    assert data_parallel_offset(parallel(**changes)) == offset


class Bare(WorkerFL):
    """A worker with only what the test gives it."""

    def __init__(self, device: SimpleNamespace, **values: Any) -> None:
        self._device = device
        vars(self).update(values)

    fl_device = property(lambda self: self._device)


def test_a_rank_without_a_device_names_the_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.accelerator.device_count", lambda: 8)
    worker = Bare(
        SimpleNamespace(indexed=True, torch_type="npu"), local_rank=1, rank=1, parallel_config=parallel()
    )
    with pytest.raises(ValueError, match=r"needs device 9 but 8 are visible.*--tensor-parallel-size"):
        worker._claim_device()


def test_ranks_share_a_device_without_indices() -> None:
    assert str(Bare(SimpleNamespace(indexed=False, torch_type="cpu"))._claim_device()) == "cpu"


@pytest.mark.parametrize(
    ("asked", "free", "workers", "expected"),
    [
        (123, 64 * GIB, 1, 123),
        (None, 64 * GIB, 1, 4 * GIB),
        (None, 6 * GIB, 1, 3 * GIB),
        (None, 6 * GIB, 3, GIB),
    ],
)
def test_the_cache_takes_at_most_half_of_what_is_free(
    asked: int | None, free: int, workers: int, expected: int
) -> None:
    profiled = []
    worker = Bare(
        SimpleNamespace(default_kv_cache_bytes=4 * GIB, memory=lambda index: Memory(free, 64 * GIB)),
        cache_config=SimpleNamespace(kv_cache_memory_bytes=asked),
        parallel_config=SimpleNamespace(local_world_size=workers),
        model_runner=SimpleNamespace(profile_run=lambda: profiled.append(True)),
    )
    assert worker.determine_available_memory() == expected
    assert profiled == [True]
