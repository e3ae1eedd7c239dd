"""TOML on every supported Python."""

from __future__ import annotations

import sys
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TomlError = tomllib.TOMLDecodeError


def parse_toml(text: str) -> dict[str, Any]:
    """Parse a TOML document; raises TomlError, which names line and column."""
    return tomllib.loads(text)
