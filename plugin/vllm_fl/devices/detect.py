"""Choice of the device family of a process."""

from __future__ import annotations

from collections.abc import Sequence

from vllm_fl.devices.ascend import ASCEND
from vllm_fl.devices.base import Device
from vllm_fl.devices.cpu import CPU
from vllm_fl.devices.cuda import CUDA, CUDA_WITHOUT_EXTENSION, has_extension

DEVICES: tuple[Device, ...] = (ASCEND, CUDA, CPU)


def device_named(name: str, devices: Sequence[Device] = DEVICES) -> Device:
    """The device ``VLLM_FL_PLATFORM=name`` means. Raises ValueError naming the accepted values."""
    for device in devices:
        if name.strip().lower() in device.names:
            return device
    accepted = ", ".join(spelling for device in devices for spelling in device.names)
    raise ValueError(f"VLLM_FL_PLATFORM={name!r} is not a known device; accepted: {accepted}")


def select_device(requested: str | None, devices: Sequence[Device] = DEVICES) -> Device | None:
    """The device asked for by name, else the first one found on this machine, else None."""
    if requested:
        return _fitting(device_named(requested, devices))
    found = next((device for device in devices if device.autodetect and device.probe()), None)
    return None if found is None else _fitting(found)


def _fitting(device: Device) -> Device:
    """The form of a device that the installed build of vLLM can drive."""
    return CUDA_WITHOUT_EXTENSION if device is CUDA and not has_extension() else device
