"""What failed in this process, and is passed over from then on."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from vllm_fl.dispatch.types import DispatchUnsupported, OpImpl

logger = logging.getLogger(__name__)

Failure = tuple[str, str, str | None]
"""Operator, implementation, dtype of the call."""


def describe_error(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


class Failures:
    """Failed implementations by operator and dtype, each reported once. Callers hold the manager's lock."""

    def __init__(self) -> None:
        self._reasons: Mapping[Failure, str] = {}
        self._warned: set[Failure] = set()

    def reasons(self) -> dict[Failure, str]:
        return dict(self._reasons)

    def replace(self, reasons: Mapping[Failure, str]) -> None:
        self._reasons = dict(reasons)

    def forget(self, op_name: str | None) -> None:
        """Those of one operator, or all."""
        self._reasons = {k: v for k, v in self._reasons.items() if op_name not in (None, k[0])}

    def concern(self, op_name: str) -> bool:
        """Whether any implementation of an operator is passed over."""
        return any(op == op_name for op, _, _ in self._reasons)

    def healthy(self, impls: Sequence[OpImpl], dtype: str | None) -> tuple[OpImpl, ...]:
        """Those not passed over for a dtype; all when none is left, which then fail in their own words."""
        left = tuple(impl for impl in impls if (impl.op_name, impl.impl_id, dtype) not in self._reasons)
        return left or tuple(impls)

    def learn(
        self, errors: Sequence[tuple[OpImpl, Exception]], winner: OpImpl, dtype: str | None, rank: int
    ) -> bool:
        """Pass over the implementations that failed where ``winner`` did not, so the arguments were right.

        Those that declined the arguments are asked again next time: other shapes may suit them. Returns
        whether one more is passed over.
        """
        for impl, error in errors:
            failure = (impl.op_name, impl.impl_id, dtype)
            if failure not in self._warned:
                self._warned.add(failure)
                logger.warning(
                    "rank %d: op=%r falls back from %s to %s for %s: %s. VLLM_FL_PER_OP='%s=%s' chooses it "
                    "from the start, VLLM_FL_STRICT=1 makes this an error",
                    rank,
                    impl.op_name,
                    impl.impl_id,
                    winner.impl_id,
                    dtype or "calls without tensors",
                    describe_error(error),
                    impl.op_name,
                    winner.kind,
                )
        learned = {
            (impl.op_name, impl.impl_id, dtype): describe_error(error)
            for impl, error in errors
            if not isinstance(error, DispatchUnsupported)
        }
        grown = bool(learned.keys() - self._reasons.keys())
        self._reasons = {**learned, **self._reasons}
        return grown
