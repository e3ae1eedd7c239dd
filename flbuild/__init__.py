"""flbuild: typed recipes to locked, reproducible and verifiable images for LLM inference."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("flbuild")
except PackageNotFoundError:  # running from a source tree that was never installed
    __version__ = "0+unknown"
