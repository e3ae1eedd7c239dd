"""Where implementations come from: the backends shipped here, and external packages."""

from __future__ import annotations

import importlib
import logging
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import entry_points

from vllm_fl.dispatch.backends import flaggems, reference, vendor
from vllm_fl.dispatch.registry import OpRegistry
from vllm_fl.dispatch.settings import Settings

logger = logging.getLogger(__name__)

ENTRY_POINT_GROUP = "vllm_fl.plugin"
HOOKS = ("vllm_fl_register", "register")

Register = Callable[[OpRegistry], None]


@dataclass
class Discovery:
    """What registered implementations, and what failed to."""

    loaded: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)


def known_vendors() -> frozenset[str]:
    """Vendors with a folder here."""
    return frozenset(module.name for module in pkgutil.iter_modules(vendor.__path__) if module.ispkg)


def discover(registry: OpRegistry, settings: Settings) -> Discovery:
    """Fill ``registry`` for a device. What fails is reported and leaves nothing behind; the rest stands."""
    found = Discovery()
    _load("reference", lambda: reference.register_builtins, registry, found)
    _load("flaggems", lambda: partial(flaggems.register_builtins, settings=settings), registry, found)
    name = settings.vendor
    if name is not None and name in known_vendors():
        _load(f"vendor {name}", partial(_vendor_hook, name), registry, found)
    for module in settings.environment.plugin_modules:
        _load(f"module {module}", partial(_module_hook, module), registry, found)
    for label, find in _entry_point_hooks():
        _load(label, find, registry, found)
    return found


def _load(label: str, find: Callable[[], Register], registry: OpRegistry, found: Discovery) -> None:
    scratch = OpRegistry()
    try:
        find()(scratch)
        registry.register_many(impl for impls in scratch.snapshot().values() for impl in impls)
    except Exception as error:
        found.failed[label] = f"{type(error).__name__}: {error}"
        logger.warning("The operators of %s are left out", label, exc_info=True)
    else:
        found.loaded.append(label)


def _vendor_hook(name: str) -> Register:
    module = importlib.import_module(f"{vendor.__name__}.{name}.register_ops")
    hook: Register = module.register_builtins
    return hook


def _module_hook(name: str) -> Register:
    module = importlib.import_module(name)
    for hook in HOOKS:
        function: Register | None = getattr(module, hook, None)
        if function is not None:
            return function
    raise AttributeError(f"module {name!r} defines neither {' nor '.join(HOOKS)}")


def _entry_point_hooks() -> Iterator[tuple[str, Callable[[], Register]]]:
    for point in entry_points(group=ENTRY_POINT_GROUP):
        yield f"entry point {point.name}", point.load
