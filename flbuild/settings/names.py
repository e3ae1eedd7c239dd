"""Names of environment variables."""

from __future__ import annotations

import re

INDEX_PREFIX = "FLBUILD_INDEX_"
REGISTRY_PREFIX = "FLBUILD_REGISTRY_"


def mangle(name: str) -> str:
    """An index id or a registry host as part of a variable's name: `quay.io` becomes `QUAY_IO`."""
    return re.sub(r"[^A-Z0-9]", "_", name.upper())


def index_variable(index_id: str, what: str = "URL") -> str:
    """The variable that redirects an index, for messages: FLBUILD_INDEX_PYTORCH_CPU_URL."""
    return f"{INDEX_PREFIX}{mangle(index_id)}_{what}"


def registry_variable(host: str, what: str = "MIRROR") -> str:
    """The variable that redirects a registry, for messages: FLBUILD_REGISTRY_QUAY_IO_MIRROR."""
    return f"{REGISTRY_PREFIX}{mangle(host)}_{what}"
