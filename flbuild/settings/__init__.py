"""Machine settings: indexes, registries, caches, credentials."""

from __future__ import annotations

from flbuild.settings.load import load_settings
from flbuild.settings.model import IndexSettings, RegistrySettings, Settings
from flbuild.settings.names import index_variable, registry_variable
from flbuild.settings.redact import redact, redact_url

__all__ = [
    "IndexSettings",
    "RegistrySettings",
    "Settings",
    "index_variable",
    "load_settings",
    "redact",
    "redact_url",
    "registry_variable",
]
