"""Which vLLM this plugin works with."""

from __future__ import annotations

import logging
import re

logger = logging.getLogger(__name__)

SUPPORTED_SERIES = "0.28"


class UnsupportedVllmError(RuntimeError):
    """The installed vLLM is of a series the plugin was not written for."""


def is_supported(version: str) -> bool:
    """Whether a vLLM version string, local part included, belongs to the supported series."""
    return re.match(rf"{re.escape(SUPPORTED_SERIES)}(\D|$)", version) is not None


def check_vllm_version(plugin_version: str, allow_mismatch: bool) -> None:
    """Raise UnsupportedVllmError unless the running vLLM is of the supported series.

    ``allow_mismatch`` turns the error into a warning.
    """
    import vllm

    found = getattr(vllm, "__version__", "unknown")
    if is_supported(found):
        return
    message = f"vllm-plugin-fl {plugin_version} supports vLLM {SUPPORTED_SERIES}.x, found {found}"
    if allow_mismatch:
        logger.warning("%s; continuing because VLLM_FL_ALLOW_VERSION_MISMATCH is set", message)
        return
    raise UnsupportedVllmError(
        f"{message}. Install a matching pair, or set VLLM_FL_ALLOW_VERSION_MISMATCH=1 to try anyway, "
        "or VLLM_PLUGINS= to leave the plugin out"
    )
