"""Which implementations may run, and in which order."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from vllm_fl.dispatch.types import OpImpl
from vllm_fl.envs import BACKENDS

_ORDERS = {
    "flagos": ("flagos", "vendor", "reference"),
    "vendor": ("vendor", "flagos", "reference"),
    "reference": ("reference", "flagos", "vendor"),
}


@dataclass(frozen=True)
class Policy:
    """Order of preference for every operator. Equal policies have equal fingerprints, in any process.

    Tokens of ``per_op``: ``flagos``, ``vendor``, ``vendor:NAME``, ``reference``, ``impl:ID``. An operator
    named there tries the listed tokens only.
    """

    prefer: str = "flagos"
    strict: bool = False
    """Whether the first error of an implementation is final."""
    per_op: tuple[tuple[str, tuple[str, ...]], ...] = ()
    allow_vendors: frozenset[str] | None = None
    deny_vendors: frozenset[str] = frozenset()
    key: str = field(init=False, repr=False, compare=False, default="")
    """The fingerprint, computed once."""

    def __post_init__(self) -> None:
        if self.prefer not in BACKENDS:
            raise ValueError(f"prefer={self.prefer!r} is not known; accepted: {', '.join(BACKENDS)}")
        for op_name, tokens in self.per_op:
            check_tokens(op_name, tokens)
        if len(dict(self.per_op)) != len(self.per_op):
            raise ValueError("per_op names an operator twice")
        object.__setattr__(self, "per_op", tuple(sorted(self.per_op)))
        facts = (
            self.prefer,
            self.strict,
            self.per_op,
            None if self.allow_vendors is None else sorted(self.allow_vendors),
            sorted(self.deny_vendors),
        )
        object.__setattr__(self, "key", hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16])

    def fingerprint(self) -> str:
        """A short digest of everything that decides an order."""
        return self.key

    def tokens(self, op_name: str) -> tuple[str, ...]:
        """What to try for an operator, in order."""
        return dict(self.per_op).get(op_name, _ORDERS[self.prefer])

    def allows(self, impl: OpImpl) -> bool:
        """Whether the vendor filters let an implementation through; a denial beats a permission."""
        if impl.vendor is None:
            return True
        if impl.vendor in self.deny_vendors:
            return False
        return self.allow_vendors is None or impl.vendor in self.allow_vendors

    def order(self, op_name: str, impls: Sequence[OpImpl]) -> tuple[OpImpl, ...]:
        """The implementations to try, first to last. Within a token the highest priority, then id, leads."""
        allowed = sorted(filter(self.allows, impls), key=lambda impl: impl.rank, reverse=True)
        chosen = (impl for token in self.tokens(op_name) for impl in allowed if _matches(token, impl))
        return tuple(dict.fromkeys(chosen))


def check_tokens(op_name: str, tokens: Iterable[str]) -> None:
    """Raise ValueError for a token outside the five forms."""
    for token in tokens:
        prefix, colon, name = token.partition(":")
        if token in BACKENDS or (prefix in ("vendor", "impl") and colon and name):
            continue
        raise ValueError(
            f"{op_name}: {token!r} names no backend; accepted: {', '.join(BACKENDS)}, vendor:NAME, impl:ID"
        )


def _matches(token: str, impl: OpImpl) -> bool:
    prefix, _, name = token.partition(":")
    if prefix == "impl":
        return impl.impl_id == name
    return impl.kind == prefix and name in ("", impl.vendor)


override: ContextVar[Policy | None] = ContextVar("vllm_fl_dispatch_policy", default=None)
"""The policy of the running context; None: the manager's own."""


@contextmanager
def policy_context(policy: Policy) -> Iterator[Policy]:
    """Use ``policy`` in this thread or task until the block ends. Blocks nest."""
    token = override.set(policy)
    try:
        yield policy
    finally:
        override.reset(token)
