"""Choice and call of an operator's implementation.

An operator is resolved once per policy. The outcome, a :class:`Plan`, is kept in the table of a (policy
fingerprint, epoch) under the operator's name, so a call costs one dictionary look-up whatever the number of
operators. Whatever could change an outcome (implementations, the process's policy, a recorded failure)
starts a new epoch with empty tables.
"""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from vllm_fl.dispatch.errors import allows_fallback
from vllm_fl.dispatch.failures import Failure, Failures, describe_error
from vllm_fl.dispatch.locks import ForkSafeLock
from vllm_fl.dispatch.plan import Function, Plan, dtype_name, dtype_of
from vllm_fl.dispatch.policy import Policy, override
from vllm_fl.dispatch.registry import OpRegistry
from vllm_fl.dispatch.types import DispatchUnsupported, OpImpl

logger = logging.getLogger(__name__)

ImplKey = tuple[str, str]
"""Operator, implementation."""

Wrapper = Callable[[OpImpl, Function], Function]


class OpManager:
    """Resolves and calls operators. Safe to share between threads, and to use in a forked child.

    Each rank of a distributed run falls back by the same rule, on errors that software and device alone
    decide. What remains to differ between ranks is settled by :func:`vllm_fl.dispatch.agreement.agree`.
    """

    def __init__(
        self,
        registry: OpRegistry | None = None,
        policy: Policy | None = None,
        *,
        rank: int = 0,
        arch: Callable[[], tuple[int, int] | None] = lambda: None,
        selected: Callable[[OpImpl], None] = lambda impl: None,
        configure: Callable[[OpManager], None] | None = None,
    ) -> None:
        """``arch`` gives the device capability, ``selected`` hears once of each implementation in use, and
        ``configure`` fills the manager before it first resolves an operator."""
        self.registry = registry or OpRegistry()
        self.rank = rank
        self.epoch = 0
        self.arch = arch
        self.selected = selected
        self._configure = configure
        self._policy = policy or Policy()
        self._lock = ForkSafeLock()
        self._failures = Failures()
        self._excluded: frozenset[ImplKey] = frozenset()
        self._reported: set[ImplKey] = set()
        self._announced: set[ImplKey] = set()
        self._wrapper: Wrapper | None = None
        self._agreed = False
        self._tables: dict[tuple[str, int], dict[str, Plan]] = {}
        self._table = self._table_of(self._policy)
        self._bound: dict[str, Function] = {}
        self.registry.subscribe(self._start_epoch)
        _managers.add(self)

    @property
    def policy(self) -> Policy:
        """The process's policy; a ``policy_context`` takes precedence over it."""
        return self._policy

    @policy.setter
    def policy(self, policy: Policy) -> None:
        with self._lock:
            self._policy = policy
            self._start_epoch()

    def active_policy(self) -> Policy:
        """The policy a call made now would follow."""
        self._ensure_configured()
        return override.get() or self._policy

    def reset(self) -> None:
        """Forget failures, agreements and instruments, and do not configure again: the caller does."""
        with self._lock:
            self._configure = None
            self._wrapper = None
            self._failures = Failures()
            self._excluded = frozenset()
            self._agreed = False
            self._reported = set()
            self._announced = set()
            self._start_epoch()

    def _ensure_configured(self) -> None:
        if self._configure is not None:
            with self._lock:
                if self._configure is not None:
                    self._configure(self)
                    self._configure = None

    def instrument(self, wrapper: Wrapper | None) -> None:
        """Pass every function through ``wrapper`` from now on; None ends that. Costs nothing while unused."""
        with self._lock:
            self._wrapper = wrapper
            self._start_epoch()

    def _start_epoch(self) -> None:
        with self._lock:
            self.epoch += 1
            self._tables = {}
            self._table = self._table_of(self._policy)

    def _table_of(self, policy: Policy) -> dict[str, Plan]:
        return self._tables.setdefault((policy.key, self.epoch), {})

    def call(self, op_name: str, /, *args: Any, **kwargs: Any) -> Any:
        """Run an operator; see :meth:`bind`."""
        bound = self._bound.get(op_name) or self._bound.setdefault(op_name, self.bind(op_name))
        return bound(*args, **kwargs)

    def bind(self, op_name: str) -> Function:
        """The operator as a function for hot paths. It always follows the policy of the moment it is called.

        A call raises RuntimeError when nothing can run the operator, or when everything that may has failed;
        otherwise whatever the implementation raises, unless another may take over.
        """
        # A closure: calling one is three times as fast as calling an instance of a class.
        context_policy = override.get

        def call(*args: Any, **kwargs: Any) -> Any:
            policy = context_policy()
            plan = (self._table if policy is None else self._table_of(policy)).get(op_name)
            if plan is None:
                plan = self._plan(op_name)
            try:
                return plan.run(*args, **kwargs)
            except Exception as error:
                dtype = dtype_of(args, kwargs)
                candidates = self._candidates(plan, dtype)
                if plan.strict or not candidates or not allows_fallback(error, candidates[0]):
                    raise
                result, winner, errors = self._fall_back(plan, candidates, error, args, kwargs)
                self._remember(errors, winner, dtype)
                return result

        call.__name__ = call.__qualname__ = op_name
        return call

    def resolve_candidates(self, op_name: str, dtype: str | None = None) -> tuple[OpImpl, ...]:
        """The implementations a call would try, first to last; RuntimeError when there is none."""
        able = [impl for impl in self._plan(op_name).impls if impl.takes(dtype)]
        return tuple(able) if dtype is None else self._failures.healthy(able, dtype)

    def resolve(self, op_name: str) -> Function:
        """The function of the first implementation, without fallback."""
        plan = self._plan(op_name)
        return plan.functions[plan.impls[0].impl_id]

    def get_selected_impl_id(self, op_name: str, dtype: str | None = None) -> str:
        return self.resolve_candidates(op_name, dtype)[0].impl_id

    def get_failed_impls(self) -> dict[Failure, str]:
        """Implementations passed over, with the error that caused it."""
        return self._failures.reasons()

    def clear_failed_impls(self, op_name: str | None = None) -> None:
        """Give implementations that failed another chance: those of one operator, or all."""
        with self._lock:
            self._failures.forget(op_name)
            self._start_epoch()

    def _plan(self, op_name: str) -> Plan:
        policy = self.active_policy()
        with self._lock:
            table = self._table_of(policy)
            plan = table.get(op_name)
            if plan is None:
                plan = table[op_name] = self._make_plan(op_name, policy)
        self._announce(plan.impls[0])
        return plan

    def _make_plan(self, op_name: str, policy: Policy) -> Plan:
        registered = self.registry.get_implementations(op_name)
        functions: dict[str, Function] = {}
        for impl in policy.order(op_name, registered):
            function = self._load(impl)
            if function is not None:
                functions[impl.impl_id] = function
        impls = tuple(i for i in policy.order(op_name, registered) if i.impl_id in functions)
        if not impls:
            known = [impl.impl_id for impl in registered]
            raise RuntimeError(
                f"No available implementation for op={op_name!r}. Registered: {known}. Tried "
                f"{', '.join(policy.tokens(op_name))}; see VLLM_FL_PER_OP and VLLM_FL_ALLOW_VENDORS"
            )
        plan = Plan(op_name, impls, functions, policy.strict)
        if self._failures.concern(op_name) or any(impl.supported_dtypes is not None for impl in impls):
            plan.run = self._by_dtype(plan)
        return plan

    def _load(self, impl: OpImpl) -> Function | None:
        """The function of an implementation that can run here, else None."""
        if (impl.op_name, impl.impl_id) in self._excluded:
            return None
        if impl.min_arch is not None:
            arch = self.arch()
            if arch is None or arch < impl.min_arch:
                return None
        try:
            function = impl.load() if impl.is_available() else None
        except Exception as error:
            if (impl.op_name, impl.impl_id) not in self._reported:
                self._reported.add((impl.op_name, impl.impl_id))
                logger.warning("%s of %r is left out: %s", impl.impl_id, impl.op_name, describe_error(error))
            return None
        if function is not None and self._wrapper is not None:
            function = self._wrapper(impl, function)
        return function

    def _announce(self, impl: OpImpl) -> None:
        key = (impl.op_name, impl.impl_id)
        if key not in self._announced:
            self._announced.add(key)
            logger.debug("rank %d: %r runs as %s", self.rank, impl.op_name, impl.impl_id)
            self.selected(impl)

    def _candidates(self, plan: Plan, dtype: Any) -> tuple[OpImpl, ...]:
        candidates = plan.by_dtype.get(dtype)
        if candidates is None:
            name = dtype_name(dtype)
            able = [impl for impl in plan.impls if impl.takes(name)]
            candidates = plan.by_dtype[dtype] = self._failures.healthy(able, name)
        return candidates

    def _by_dtype(self, plan: Plan) -> Function:
        """Runs the first candidate for the dtype of the call."""

        def run(*args: Any, **kwargs: Any) -> Any:
            dtype = dtype_of(args, kwargs)
            candidates = plan.by_dtype.get(dtype) or self._candidates(plan, dtype)
            if not candidates:
                raise RuntimeError(
                    f"No implementation of op={plan.op_name!r} takes {dtype_name(dtype)}. "
                    f"Available: {[impl.impl_id for impl in plan.impls]}"
                )
            return plan.functions[candidates[0].impl_id](*args, **kwargs)

        return run

    def _fall_back(
        self,
        plan: Plan,
        candidates: tuple[OpImpl, ...],
        error: Exception,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> tuple[Any, OpImpl, list[tuple[OpImpl, Exception]]]:
        """The first candidate raised ``error``. Gives the next one's result, that one, and all errors."""
        errors: list[tuple[OpImpl, Exception]] = []
        rest = self._after(candidates[0], error, candidates, errors)
        while rest:
            impl = rest[0]
            try:
                return plan.functions[impl.impl_id](*args, **kwargs), impl, errors
            except Exception as another:
                if not allows_fallback(another, impl):
                    raise
                rest = self._after(impl, another, rest, errors)
        raise self._exhausted(plan, errors) from errors[-1][1]

    def _after(
        self,
        impl: OpImpl,
        error: Exception,
        candidates: tuple[OpImpl, ...],
        errors: list[tuple[OpImpl, Exception]],
    ) -> tuple[OpImpl, ...]:
        """Who may still try, now that ``impl`` failed."""
        errors.append((impl, error))
        rest = tuple(other for other in candidates if other is not impl)
        if self._agreed and rest and not isinstance(error, DispatchUnsupported):
            raise RuntimeError(
                f"op={impl.op_name!r} failed on rank {self.rank} after all ranks agreed on implementations, "
                f"and {rest[0].impl_id} cannot take over here alone. Set VLLM_FL_PER_OP="
                f"'{impl.op_name}={rest[0].kind}' on every rank. Error: {describe_error(error)}"
            ) from error
        return rest

    def _exhausted(self, plan: Plan, errors: list[tuple[OpImpl, Exception]]) -> RuntimeError:
        tried = "; ".join(f"{impl.impl_id}: {describe_error(error)}" for impl, error in errors)
        return RuntimeError(
            f"All {len(errors)} implementation(s) failed for op={plan.op_name!r} on rank {self.rank}. "
            f"Last error: {describe_error(errors[-1][1])} (tried {tried})"
        )

    def _remember(self, errors: list[tuple[OpImpl, Exception]], winner: OpImpl, dtype: Any) -> None:
        with self._lock:
            if self._failures.learn(errors, winner, dtype_name(dtype), self.rank):
                self._start_epoch()
        self._announce(winner)

    def available(self) -> frozenset[ImplKey]:
        """Every implementation that can run in this process, whatever the policy."""
        impls = (impl for group in self.registry.snapshot().values() for impl in group)
        return frozenset((impl.op_name, impl.impl_id) for impl in impls if self._load(impl) is not None)

    def bind_to_agreement(self, failed: Mapping[Failure, str], excluded: frozenset[ImplKey]) -> None:
        """Pass over what failed or is missing on any rank, and fall back no more without the others."""
        with self._lock:
            self._failures.replace(failed)
            self._excluded = excluded
            self._agreed = True
            self._start_epoch()


_managers: weakref.WeakSet[OpManager] = weakref.WeakSet()


def _renew_after_fork() -> None:
    # Another thread of the parent may have been between changing an implementation and dropping its plans.
    for manager in _managers:
        manager._start_epoch()


os.register_at_fork(after_in_child=_renew_after_fork)
