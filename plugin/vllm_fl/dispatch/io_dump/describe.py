"""Arguments and results of operators as plain data."""

from __future__ import annotations

from typing import Any

import torch


def describe(value: Any) -> Any:
    """JSON data of a value: tensors by shape, dtype and statistics, containers item by item."""
    if isinstance(value, torch.Tensor):
        return _describe_tensor(value)
    if isinstance(value, dict):
        return {str(key): describe(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [describe(item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return type(value).__name__ if isinstance(value, torch.nn.Module) else str(value)


def _describe_tensor(tensor: torch.Tensor) -> dict[str, Any]:
    """Statistics are of the finite elements, computed in fp64 on the host, so devices compare exactly."""
    facts: dict[str, Any] = {
        "shape": list(tensor.shape),
        "stride": list(tensor.stride()),
        "dtype": str(tensor.dtype).rpartition(".")[2],
        "device": str(tensor.device),
    }
    if tensor.numel() == 0 or tensor.is_complex() or tensor.is_meta:
        return facts
    values = tensor.detach().cpu().double()
    finite = values[values.isfinite()]
    facts["not_finite"] = values.numel() - finite.numel()
    if finite.numel():
        facts |= {
            "min": finite.min().item(),
            "max": finite.max().item(),
            "mean": finite.mean().item(),
            "norm": finite.norm().item(),
        }
    return facts


def snapshot(value: Any) -> Any:
    """A copy on the host that later calls cannot change; layers by their class name."""
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().clone()
    if isinstance(value, dict):
        return {key: snapshot(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [snapshot(item) for item in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(type(value).__name__)
