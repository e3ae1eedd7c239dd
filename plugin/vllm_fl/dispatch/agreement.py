"""The same choice of implementations on every rank.

Ranks fall back by one rule, but not on the same data: with experts spread over ranks, a kernel may meet a
shape on one rank only. The rank that falls back alone then rounds differently from its peers. So after the
profile run, which calls every operator, the ranks merge what they learned. A new failure after that is an
error; an implementation may still decline a call by its shapes, which every rank judges alike.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from vllm_fl.dispatch.manager import OpManager

logger = logging.getLogger(__name__)


def agree(manager: OpManager, gather: Callable[[Any], list[Any]]) -> None:
    """Make every rank choose alike from here on. A single rank stays as it is.

    ``gather`` is a collective that gives every rank's object in rank order. An implementation that failed or
    is missing on one rank is passed over on all. Raises RuntimeError, on all ranks, when policies differ.
    """
    mine = (manager.policy.fingerprint(), manager.get_failed_impls(), manager.available())
    policies, failures, available = zip(*gather(mine), strict=True)
    if len(policies) == 1:
        return
    if len(set(policies)) > 1:
        raise RuntimeError(
            f"Ranks follow different dispatch policies (in rank order: {', '.join(policies)}). Give every "
            "node the same VLLM_FL_* variables and policy files"
        )
    missing = frozenset.union(*available) - frozenset.intersection(*available)
    if missing:
        names = ", ".join(f"{impl_id} of {op_name!r}" for op_name, impl_id in sorted(missing))
        logger.warning("rank %d: left out because not every rank has it: %s", manager.rank, names)
    merged = {key: reason for failed in failures for key, reason in failed.items()}
    manager.bind_to_agreement(merged, missing)
