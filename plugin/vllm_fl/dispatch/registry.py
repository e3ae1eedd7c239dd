"""The implementations known to a process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from vllm_fl.dispatch.locks import ForkSafeLock
from vllm_fl.dispatch.types import OpImpl


class OpRegistry:
    """Implementations by operator. Readers never wait: every change replaces the whole mapping."""

    def __init__(self) -> None:
        self._lock = ForkSafeLock()
        self._impls: Mapping[str, tuple[OpImpl, ...]] = MappingProxyType({})
        self._listeners: tuple[Callable[[], None], ...] = ()

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` after every change."""
        with self._lock:
            self._listeners = (*self._listeners, listener)

    def register_impl(self, impl: OpImpl) -> None:
        """Add one implementation. Raises ValueError when its operator already has one of that id."""
        self.register_many((impl,))

    def register_many(self, impls: Iterable[OpImpl]) -> None:
        """Add all of ``impls``, or none of them when one is a duplicate (ValueError)."""
        with self._lock:
            merged = dict(self._impls)
            for impl in impls:
                present = merged.get(impl.op_name, ())
                if any(other.impl_id == impl.impl_id for other in present):
                    raise ValueError(
                        f"Operator {impl.op_name!r} already has an implementation {impl.impl_id!r}"
                    )
                merged[impl.op_name] = (*present, impl)
            self._replace(merged)

    def clear(self) -> None:
        """Forget every implementation."""
        with self._lock:
            self._replace({})

    def _replace(self, impls: dict[str, tuple[OpImpl, ...]]) -> None:
        self._impls = MappingProxyType(impls)
        for listener in self._listeners:
            listener()

    def snapshot(self) -> Mapping[str, tuple[OpImpl, ...]]:
        """Every operator's implementations at this moment; later changes do not show in it."""
        return self._impls

    def get_implementations(self, op_name: str) -> tuple[OpImpl, ...]:
        """The operator's implementations in order of registration; empty for an unknown operator."""
        return self._impls.get(op_name, ())

    def get_implementation(self, op_name: str, impl_id: str) -> OpImpl | None:
        return next((i for i in self.get_implementations(op_name) if i.impl_id == impl_id), None)

    def list_operators(self) -> list[str]:
        return sorted(self._impls)

    def vendors(self) -> frozenset[str]:
        """Vendors that brought an implementation."""
        return frozenset(i.vendor for impls in self._impls.values() for i in impls if i.vendor is not None)
