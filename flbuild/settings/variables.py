"""Settings from environment variables; a name that is nearly one of ours is an error, not silence."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from flbuild.errors import UsageError
from flbuild.settings.model import IndexSettings
from flbuild.settings.names import INDEX_PREFIX, REGISTRY_PREFIX, mangle
from flbuild.settings.places import expand
from flbuild.suggest import closest, perhaps

PLAIN_VARIABLES = (
    "FLBUILD_CA_BUNDLE",
    "FLBUILD_CACHE_DIR",
    "FLBUILD_CONFIG",
    "FLBUILD_FIND_LINKS",
    "FLBUILD_JOBS",
    "FLBUILD_PROXY",
)
"""Every variable of ours that is not about one index or one registry."""

_INDEX_SUFFIXES = ("URL", "USERNAME", "PASSWORD")
_REGISTRY_SUFFIXES = ("MIRROR", "USERNAME", "PASSWORD")


def plain_variables(environ: Mapping[str, str]) -> dict[str, Any]:
    """Settings that variables give directly: cache_dir, ca_bundle, proxy, jobs."""
    values: dict[str, Any] = {}
    if folder := environ.get("FLBUILD_CACHE_DIR"):
        values["cache_dir"] = expand(Path(folder)).absolute()
    bundles = [environ.get(name) for name in ("FLBUILD_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE")]
    if bundle := next(filter(None, bundles), None):
        values["ca_bundle"] = expand(Path(bundle)).absolute()
    if proxy := environ.get("FLBUILD_PROXY"):
        values["proxy"] = SecretStr(proxy)
    if jobs := environ.get("FLBUILD_JOBS"):
        if not jobs.isascii() or not jobs.isdigit() or int(jobs) < 1:
            raise UsageError(f"FLBUILD_JOBS is '{jobs}', not a whole number above zero")
        values["jobs"] = int(jobs)
    return values


def index_variables(
    environ: Mapping[str, str], indexes: Mapping[str, IndexSettings]
) -> dict[str, dict[str, Any]]:
    """What variables set of each index: url, username, password."""
    known = {
        f"{INDEX_PREFIX}{mangle(index_id)}_{suffix}": (index_id, suffix.lower())
        for index_id in indexes
        for suffix in _INDEX_SUFFIXES
    }
    found: dict[str, dict[str, Any]] = {}
    for name, value in environ.items():
        if not name.startswith(INDEX_PREFIX) or not value:
            continue
        if name not in known:
            raise UsageError(
                f"the variable {name} is about no known index{perhaps(name, known)}",
                cause="an index of your own is declared in flbuild.toml before a variable can change it",
                remedy=f"unset {name}, or rename it",
            )
        index_id, key = known[name]
        found.setdefault(index_id, {})[key] = value if key == "url" else SecretStr(value)
    return found


def registry_variables(environ: Mapping[str, str]) -> dict[str, dict[str, SecretStr]]:
    """What variables set of each registry, by its host in the form of a variable's name."""
    found: dict[str, dict[str, SecretStr]] = {}
    for name, value in environ.items():
        if not name.startswith(REGISTRY_PREFIX) or not value:
            continue
        host, _, suffix = name.removeprefix(REGISTRY_PREFIX).rpartition("_")
        if not host or suffix not in _REGISTRY_SUFFIXES:
            raise UsageError(
                f"the variable {name} has an unknown ending{perhaps(suffix, _REGISTRY_SUFFIXES)}",
                remedy=f"unset {name}, or rename it to {REGISTRY_PREFIX}HOST_MIRROR, _USERNAME or _PASSWORD",
            )
        found.setdefault(host, {})[suffix.lower()] = SecretStr(value)
    return found


def refuse_misspelled(environ: Mapping[str, str]) -> None:
    """Refuse a near miss of a variable of ours; anything else may belong to another program."""
    for name in environ:
        if not name.startswith("FLBUILD_") or name.startswith((INDEX_PREFIX, REGISTRY_PREFIX)):
            continue
        meant = closest(name, PLAIN_VARIABLES, cutoff=0.85)
        if meant is not None and meant != name:
            raise UsageError(
                f"unknown variable {name}; perhaps you meant '{meant}'",
                remedy=f"unset {name}, or rename it to {meant}",
            )
