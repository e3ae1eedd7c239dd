"""What an operator's implementation is."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["flagos", "vendor", "reference"]

PRIORITIES: dict[Kind, int] = {"flagos": 150, "vendor": 100, "reference": 50}
"""Priority of an implementation that names none."""


class DispatchUnsupported(NotImplementedError):
    """An implementation declines a call because of its arguments, before it changed any, so another may try.

    Whether it does must follow from shapes, dtypes and options alone: ranks then decide alike without asking.
    """


@dataclass(frozen=True)
class OpImpl:
    """One implementation of one operator.

    ``fn`` may carry a function ``_is_available`` that says whether it can run on this machine.
    """

    op_name: str
    impl_id: str
    kind: Kind
    fn: Callable[..., Any]
    vendor: str | None = None
    priority: int | None = None
    """Order among implementations of one kind, highest first; None: the usual one of the kind."""
    supported_dtypes: frozenset[str] | None = None
    """Names such as ``bfloat16``; None: every dtype."""
    min_arch: tuple[int, int] | None = None
    """Lowest device capability; None: any device."""
    may_mutate: bool = False
    """Whether it may have changed its arguments by the time it raises."""

    def __post_init__(self) -> None:
        if self.kind not in PRIORITIES:
            raise ValueError(f"{self.op_name}: unknown kind {self.kind!r}; accepted: {', '.join(PRIORITIES)}")
        if (self.kind == "vendor") != (self.vendor is not None):
            raise ValueError(f"{self.op_name}: a vendor is named by implementations of kind 'vendor' only")

    @property
    def rank(self) -> tuple[int, str]:
        """Sort key within a kind; the highest comes first."""
        priority = PRIORITIES[self.kind] if self.priority is None else self.priority
        return priority, self.impl_id

    def is_available(self) -> bool:
        """Whether this machine can run it. Raises whatever the check raises."""
        check = getattr(self.fn, "_is_available", None)
        return check is None or bool(check())

    def takes(self, dtype: str | None) -> bool:
        """Whether tensors of this dtype are accepted. None, an unknown dtype, always is."""
        return dtype is None or self.supported_dtypes is None or dtype in self.supported_dtypes

    def load(self) -> Callable[..., Any]:
        """The function to call, imported now if it was named only."""
        return self.fn.load() if isinstance(self.fn, Deferred) else self.fn


class Deferred:
    """A function named as ``package.module:function``, imported when its operator is first resolved.

    ``condition`` says whether it is worth importing; an import that fails then is an error to report.
    """

    __slots__ = ("condition", "target")

    def __init__(self, target: str, condition: Callable[[], bool] | None = None) -> None:
        self.target = target
        self.condition = condition

    def load(self) -> Callable[..., Any]:
        module, _, attribute = self.target.partition(":")
        function: Callable[..., Any] = getattr(importlib.import_module(module), attribute)
        return function

    def _is_available(self) -> bool:
        if self.condition is not None and not self.condition():
            return False
        check = getattr(self.load(), "_is_available", None)
        return check is None or bool(check())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.load()(*args, **kwargs)

    def __repr__(self) -> str:
        return f"Deferred({self.target!r})"
