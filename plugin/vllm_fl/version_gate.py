"""Which vLLM this plugin works with."""

from __future__ import annotations

import logging
import os
import re

logger = logging.getLogger(__name__)

SUPPORTED_SERIES = "0.28"
OVERRIDE = "VLLM_FL_ALLOW_VERSION_MISMATCH"


class UnsupportedVllmError(RuntimeError):
    """The installed vLLM is of a series the plugin was not written for."""


def is_supported(version: str) -> bool:
    """Whether a vLLM version string, local part included, belongs to the supported series."""
    return re.match(rf"{re.escape(SUPPORTED_SERIES)}(\D|$)", version) is not None


def check_vllm_version(plugin_version: str) -> None:
    """Raise UnsupportedVllmError unless the running vLLM is of the supported series.

    ``VLLM_FL_ALLOW_VERSION_MISMATCH=1`` turns the error into a warning.
    """
    import vllm

    found = getattr(vllm, "__version__", "unknown")
    if is_supported(found):
        return
    message = f"vllm-plugin-fl {plugin_version} supports vLLM {SUPPORTED_SERIES}.x, found {found}"
    if os.environ.get(OVERRIDE) == "1":
        logger.warning("%s; continuing because %s=1", message, OVERRIDE)
        return
    raise UnsupportedVllmError(
        f"{message}. Install a matching pair, or set {OVERRIDE}=1 to try anyway, or VLLM_PLUGINS= to leave "
        "the plugin out"
    )
