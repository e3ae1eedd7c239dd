"""The outcome of resolving an operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from vllm_fl.dispatch.types import OpImpl

Function = Callable[..., Any]


class Plan:
    """The implementations of one operator under one policy, first to last, ready to call."""

    __slots__ = ("by_dtype", "functions", "impls", "op_name", "run", "strict")

    def __init__(
        self, op_name: str, impls: tuple[OpImpl, ...], functions: Mapping[str, Function], strict: bool
    ) -> None:
        self.op_name = op_name
        self.impls = impls
        self.functions = functions
        """By id of the implementation."""
        self.strict = strict
        self.by_dtype: dict[Any, tuple[OpImpl, ...]] = {}
        """Candidates for calls of one dtype, filled as they come."""
        self.run = functions[impls[0].impl_id]
        """What a call runs: the first implementation, unless dtypes tell which is first."""


def dtype_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Dtype of the first tensor among the arguments, else None."""
    for values in (args, kwargs.values()):
        for value in values:
            # Layers passed along may have a dtype too, but no shape.
            if hasattr(value, "dtype") and hasattr(value, "shape"):
                return value.dtype
    return None


def dtype_name(dtype: Any) -> str | None:
    """Such as ``bfloat16``."""
    return None if dtype is None else str(dtype).rpartition(".")[2]
