from __future__ import annotations

from dataclasses import replace

import pytest
from vllm_fl.devices.ascend import ASCEND
from vllm_fl.devices.cpu import CPU
from vllm_fl.devices.cuda import CUDA
from vllm_fl.devices.detect import DEVICES, device_named, select_device

ABSENT = tuple(replace(device, probe=lambda: False) for device in DEVICES)


@pytest.mark.parametrize(
    ("name", "device"),
    [("ascend", ASCEND), ("nvidia", CUDA), ("cuda", CUDA), ("CUDA ", CUDA), ("cpu", CPU)],
)
def test_a_device_is_found_by_any_of_its_names(name: str, device: object) -> None:
    assert device_named(name) is device


def test_an_unknown_name_lists_the_accepted_ones() -> None:
    with pytest.raises(
        ValueError, match="'gaudi' is not a known device; accepted: ascend, nvidia, cuda, cpu"
    ):
        select_device("gaudi")


def test_an_explicit_name_wins_over_what_the_machine_has() -> None:
    assert select_device("ascend", ABSENT).name == "ascend"


def test_without_an_accelerator_nothing_is_chosen_although_every_machine_has_a_cpu() -> None:
    machine = tuple(replace(device, probe=lambda name=device.name: name == CPU.name) for device in DEVICES)
    assert select_device(None, machine) is None


@pytest.mark.parametrize("present", ["ascend", "nvidia"])
def test_the_accelerator_of_the_machine_is_chosen(present: str) -> None:
    machine = tuple(replace(device, probe=lambda name=device.name: name == present) for device in DEVICES)
    assert select_device(None, machine).name == present


def test_no_two_devices_share_a_name() -> None:
    names = [name for device in DEVICES for name in device.names]
    assert len(names) == len(set(names))
