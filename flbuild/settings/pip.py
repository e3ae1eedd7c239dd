"""What pip is configured to use on this machine: where pip works, flbuild works.

Only what has the same meaning here is taken. Extra indexes are not: they let one index shadow another's
packages, and a recipe names the index of each package instead.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from configparser import Error, RawConfigParser
from pathlib import Path

from platformdirs import site_config_path, user_config_path

_SECTIONS = ("global", "install")
"""The sections that apply to an installation, the stronger last."""

SYSTEM_FILE = Path("/etc/pip.conf")


def pip_option(name: str, environ: Mapping[str, str]) -> str:
    """The value of a pip option such as `index-url`, from PIP_INDEX_URL or pip's files; empty when unset."""
    if value := environ.get(f"PIP_{name.upper().replace('-', '_')}"):
        return value
    found = ""
    for path in _files(environ):
        parser = RawConfigParser()
        try:
            parser.read(path, encoding="utf-8")
        except (
            Error,
            UnicodeDecodeError,
        ):  # pip itself reports a broken file; its settings are only a default here
            continue
        for section in _SECTIONS:
            found = parser.get(section, name, fallback="") or found
    return found


def _files(environ: Mapping[str, str]) -> Iterator[Path]:
    """pip's configuration files, the weakest first, as pip itself orders them."""
    named = environ.get("PIP_CONFIG_FILE")
    if named == os.devnull:
        return
    yield site_config_path("pip") / "pip.conf"
    yield SYSTEM_FILE
    # Unlike Path.home, this is no error for a user without a home folder: it names no file then.
    yield Path(os.path.expanduser("~/.pip/pip.conf"))
    yield user_config_path("pip") / "pip.conf"
    yield Path(sys.prefix) / "pip.conf"
    if named:
        yield Path(named)
