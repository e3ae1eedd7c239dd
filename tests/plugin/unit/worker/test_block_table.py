from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from vllm.v1.attention.backends.utils import PAD_SLOT_ID
from vllm.v1.worker.block_table import SlotMappingMode
from vllm_fl.worker.block_table import TorchMultiGroupBlockTable, slot_mapping


def reference(table: torch.Tensor, starts: list[int], positions: list[int], kernel_block: int) -> list[int]:
    slots = []
    for token, position in enumerate(positions):
        request = next((r for r in range(len(starts) - 1) if starts[r] <= token < starts[r + 1]), None)
        slots.append(
            PAD_SLOT_ID
            if request is None
            else int(table[request, position // kernel_block]) * kernel_block + position % kernel_block
        )
    return slots


@pytest.mark.parametrize(("manager", "kernel"), [(16, 16), (64, 16), (256, 128)])
def test_B60_slots_follow_the_kernel_block_whatever_the_manager_block(manager: int, kernel: int) -> None:
    torch.manual_seed(0)
    table = torch.randperm(64, dtype=torch.int32).view(4, 16)
    # A prefill, a decode deep in its sequence, an idle request and a chunk that crosses blocks; two pads.
    starts = [0, 20, 21, 21, 30]
    positions = [*range(20), 16 * kernel - 1, *range(kernel - 4, kernel + 5), 0, 0]
    found = slot_mapping(table, torch.tensor(starts), torch.tensor(positions), manager, kernel)
    assert found.tolist() == reference(table, starts, positions, kernel)


def test_a_kernel_block_that_does_not_divide_is_refused() -> None:
    with pytest.raises(ValueError, match="kernel block 48 does not divide manager block 64"):
        slot_mapping(torch.zeros(1, 1), torch.tensor([0, 1]), torch.tensor([0]), 64, 48)


def table(mode: SlotMappingMode, ranks: int = 1) -> SimpleNamespace:
    return SimpleNamespace(
        slot_mapping_mode=mode,
        slot_mapping=SimpleNamespace(gpu=torch.full((8,), 99)),
        block_table=SimpleNamespace(gpu=torch.tensor([[5, 6], [7, 8]])),
        kv_cache_block_size=4,
        block_size=4,
        dcp_world_size=ranks,
    )


def test_groups_with_states_keep_their_mapping_and_the_rest_of_the_buffer_is_padded() -> None:
    attention, states = table(SlotMappingMode.TOKEN_TO_KV_SLOT), table(SlotMappingMode.NONE)
    tables = TorchMultiGroupBlockTable([attention, states])
    tables.compute_slot_mapping(2, torch.tensor([0, 2, 3, 77]), torch.tensor([3, 4, 0]))
    assert attention.slot_mapping.gpu.tolist() == [23, 24, 28, *[PAD_SLOT_ID] * 5]
    assert states.slot_mapping.gpu.tolist() == [99] * 8


def test_context_parallel_tables_are_refused() -> None:
    with pytest.raises(ValueError, match="--decode-context-parallel-size"):
        TorchMultiGroupBlockTable([table(SlotMappingMode.TOKEN_TO_KV_SLOT, ranks=2)])
