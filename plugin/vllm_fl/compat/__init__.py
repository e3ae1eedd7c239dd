"""Patches of vLLM and torch, for the few places that offer no hook.

Each module holds one patch. It names what it replaces and the vLLM series it was written for, is applied
only where it is needed, and has a test that fails once vLLM no longer needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Patch:
    """One replacement. ``apply`` may run any number of times."""

    target: str
    """Dotted name of what is replaced."""
    series: str
    """vLLM series it was written for."""
    needed: Callable[[], bool]
    apply: Callable[[], None]


def apply_patches(names: Iterable[str]) -> None:
    """Apply the patches with these dotted names that this process needs."""
    from vllm.utils.import_utils import resolve_obj_by_qualname

    for name in names:
        patch: Patch = resolve_obj_by_qualname(name)
        if patch.needed():
            patch.apply()
