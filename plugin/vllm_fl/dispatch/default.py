"""The manager that the plugin's layers use, one per process."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from vllm_fl.dispatch.discovery import Discovery, discover, known_vendors
from vllm_fl.dispatch.manager import OpManager
from vllm_fl.dispatch.oplist import record_use
from vllm_fl.dispatch.policy import Policy, policy_context
from vllm_fl.dispatch.settings import Settings, load_settings

logger = logging.getLogger(__name__)


def configure(manager: OpManager, settings: Settings) -> Discovery:
    """Fill a manager with what this machine offers, in the order ``settings`` asks for."""
    manager.registry.clear()
    found = discover(manager.registry, settings)
    manager.policy = settings.policy
    _warn_about_unknown_names(manager, settings.policy)
    return found


def _warn_about_unknown_names(manager: OpManager, policy: Policy) -> None:
    vendors = known_vendors() | manager.registry.vendors()
    for name in sorted(((policy.allow_vendors or frozenset()) | policy.deny_vendors) - vendors):
        logger.warning("The vendor lists name %r, which is none of %s", name, ", ".join(sorted(vendors)))
    operators = manager.registry.list_operators()
    for name in sorted(dict(policy.per_op).keys() - set(operators)):
        near = difflib.get_close_matches(name, operators, n=1)
        logger.warning("The policy orders operator %r, which does not exist%s", name, _hint(near))


def _hint(near: list[str]) -> str:
    return f"; perhaps you meant {near[0]!r}" if near else ""


def _configure_from_environment(manager: OpManager) -> None:
    configure(manager, load_settings())


_manager = OpManager(selected=record_use, configure=_configure_from_environment)


def get_default_manager() -> OpManager:
    """The process's manager. It reads environment and policy files when it first resolves an operator."""
    return _manager


def reset_default_manager(settings: Settings | None = None) -> Discovery:
    """Start over, with the environment and policy files as they are now or with ``settings``."""
    _manager.reset()
    return configure(_manager, settings or load_settings())


def bind(op_name: str) -> Callable[..., Any]:
    """An operator as a function for hot paths; see :meth:`OpManager.bind`."""
    return _manager.bind(op_name)


def call_op(op_name: str, /, *args: Any, **kwargs: Any) -> Any:
    """Run an operator."""
    return _manager.call(op_name, *args, **kwargs)


def resolve_op(op_name: str) -> Callable[..., Any]:
    """The function that runs an operator under the policy in force, without fallback."""
    return _manager.resolve(op_name)


def with_strict_mode(strict: bool = True) -> AbstractContextManager[Policy]:
    """No fallback in the block."""
    return policy_context(replace(_manager.active_policy(), strict=strict))


def with_preference(prefer: str) -> AbstractContextManager[Policy]:
    """Another default order in the block: flagos, vendor or reference."""
    return policy_context(replace(_manager.active_policy(), prefer=prefer))


def with_allowed_vendors(vendors: Iterable[str]) -> AbstractContextManager[Policy]:
    """Only these vendors in the block."""
    return policy_context(replace(_manager.active_policy(), allow_vendors=frozenset(vendors)))


def with_denied_vendors(vendors: Iterable[str]) -> AbstractContextManager[Policy]:
    """These vendors not in the block, beside those already denied."""
    policy = _manager.active_policy()
    return policy_context(replace(policy, deny_vendors=policy.deny_vendors | frozenset(vendors)))
