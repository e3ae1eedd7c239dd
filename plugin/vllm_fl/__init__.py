"""Entry points of the plugin.

Importing this package imports neither vLLM nor torch: vLLM calls :func:`register` while it is itself
still being imported, more than once per process, and in every process it starts.
"""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, ParamSpec, TypeVar

try:
    from vllm_fl._version import version as __version__
except ImportError:  # a source tree nobody has built
    __version__ = "0.0.0"

if TYPE_CHECKING:
    from vllm_fl.devices.base import Device

logger = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")


def _reported(entry_point: Callable[P, R]) -> Callable[P, R]:
    """Log what ``entry_point`` raises: vLLM drops the exceptions of platform plugins without a word."""

    @functools.wraps(entry_point)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        from vllm_fl.version_gate import UnsupportedVllmError

        try:
            return entry_point(*args, **kwargs)
        except UnsupportedVllmError as error:
            logger.error("%s", error)
            raise
        except Exception:
            logger.exception("vllm-plugin-fl %s failed in %s()", __version__, entry_point.__name__)
            raise

    return wrapper


def _select_device() -> Device | None:
    from vllm_fl import envs
    from vllm_fl.devices.detect import select_device
    from vllm_fl.version_gate import check_vllm_version

    environment = envs.read()
    check_vllm_version(__version__, environment.allow_version_mismatch)
    return select_device(environment.platform)


def _declare_variables() -> None:
    """Name our variables to vLLM, which warns about, or refuses, those of its prefix it does not know."""
    import vllm.envs

    from vllm_fl.envs import VARIABLES

    for name in VARIABLES:
        if name.startswith("VLLM_"):
            vllm.envs.environment_variables.setdefault(name, functools.partial(os.environ.get, name))


@_reported
def register() -> str | None:
    """Choose the platform class for this process (entry point ``vllm.platform_plugins``).

    Returns the dotted name of the class, or None when no supported accelerator is present and
    ``VLLM_FL_PLATFORM`` names none, which leaves vLLM as it is. Raises ValueError for an unknown
    ``VLLM_FL_PLATFORM`` and UnsupportedVllmError for a vLLM of another series; both are logged first.
    """
    device = _select_device()
    if device is None:
        return None
    _declare_variables()
    device.set_environment_defaults()
    return device.platform_class


@_reported
def register_model() -> None:
    """Register layers and operators (entry point ``vllm.general_plugins``), in every vLLM process.

    Does nothing when vLLM runs on a platform that is not this plugin's. Raises ValueError or
    FileNotFoundError for a bad variable or policy file, long before a worker needs it.
    """
    if _select_device() is None:
        return
    from vllm.platforms import current_platform

    if getattr(type(current_platform), "fl_device", None) is None:
        return
    from vllm_fl.dispatch.settings import load_settings
    from vllm_fl.ops import register_layers

    register_layers(load_settings().environment)
