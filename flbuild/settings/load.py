"""Settings from their sources: environment, project file, user file, pip's configuration, built-in values.

The strongest comes first; command-line flags go on top with `Settings.with_flags`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path, user_config_path
from pydantic import SecretStr
from pypi_simple import PYPI_SIMPLE_ENDPOINT

from flbuild.errors import UsageError
from flbuild.settings.file import SettingsFile, read_settings_file
from flbuild.settings.model import IndexSettings, RegistrySettings, Settings, is_loopback
from flbuild.settings.names import INDEX_PREFIX, REGISTRY_PREFIX, mangle
from flbuild.settings.pip import pip_option
from flbuild.settings.places import local_or_url
from flbuild.settings.toml import parse_toml
from flbuild.suggest import closest, perhaps

FILE_NAME = "flbuild.toml"

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


def load_settings(root: Path | None, environ: Mapping[str, str]) -> Settings:
    """Settings for the project at `root`, or for no project.

    Raises:
        UsageError: a file or a variable holds something unknown or wrong.
    """
    user = _user_file(environ)
    sources = [(user.parent, read_settings_file(user))]
    if root is not None:
        sources.append((root, read_settings_file(root / FILE_NAME)))
    _refuse_misspelled(environ)

    indexes = _builtin_indexes()
    if url := pip_option("index-url", environ):
        indexes["pypi"] = _index(indexes["pypi"], {"url": url}, Path.cwd())
    registries: dict[str, RegistrySettings] = {}
    merged: dict[str, Any] = {}
    find_links: tuple[str, ...] = ()
    for folder, source in sources:
        for index_id, table in source.index.items():
            given = table.model_dump(exclude_unset=True)
            indexes[index_id] = _index(indexes.get(index_id, IndexSettings()), given, folder)
        for host, registry in source.registry.items():
            registries[host] = _registry(
                registries.get(host), host, registry.model_dump(exclude_unset=True), folder
            )
        find_links = (*(local_or_url(link, folder) for link in source.find_links), *find_links)
        merged.update(_plain(source, folder))

    merged.update(_plain_variables(environ))
    for index_id, given in _index_variables(environ, indexes).items():
        indexes[index_id] = _index(indexes[index_id], given, Path.cwd())
    links = (
        *environ.get("FLBUILD_FIND_LINKS", "").split(),
        *find_links,
        *pip_option("find-links", environ).split(),
    )
    return Settings(
        indexes=indexes,
        registries=registries,
        registry_variables=_registry_variables(environ),
        find_links=tuple(dict.fromkeys(local_or_url(link, Path.cwd()) for link in links)),
        cache_dir=merged.get("cache_dir") or user_cache_path("flbuild"),
        ca_bundle=merged.get("ca_bundle") or _pip_bundle(environ),
        proxy=merged.get("proxy"),
        jobs=merged.get("jobs") or max(2, min(8, os.cpu_count() or 2)),
    )


def _user_file(environ: Mapping[str, str]) -> Path:
    if named := environ.get("FLBUILD_CONFIG"):
        path = Path(named).expanduser()
        if not path.is_file():
            raise UsageError(
                f"FLBUILD_CONFIG names {path}, which is not a file", remedy="unset FLBUILD_CONFIG, or fix it"
            )
        return path
    return user_config_path("flbuild") / FILE_NAME


def _builtin_indexes() -> dict[str, IndexSettings]:
    data = parse_toml(files("flbuild.settings").joinpath("indexes.toml").read_text(encoding="utf-8"))
    data["pypi"]["url"] = PYPI_SIMPLE_ENDPOINT
    return {index_id: IndexSettings(**table) for index_id, table in data.items()}


def _index(below: IndexSettings, given: Mapping[str, Any], folder: Path) -> IndexSettings:
    values = dict(given)
    if place := values.pop("url", None):
        below = below.redirected(place, folder)
    return below.model_copy(update=values)


def _registry(
    below: RegistrySettings | None, host: str, given: Mapping[str, Any], folder: Path
) -> RegistrySettings:
    values = dict(given)
    if values.get("ca_bundle") is not None:
        values["ca_bundle"] = folder / Path(values["ca_bundle"]).expanduser()
    return (below or RegistrySettings(plain_http=is_loopback(host))).model_copy(update=values)


def _plain(source: SettingsFile, folder: Path) -> dict[str, Any]:
    values: dict[str, Any] = {"proxy": source.proxy, "jobs": source.jobs}
    for key in ("cache_dir", "ca_bundle"):
        path: Path | None = getattr(source, key)
        values[key] = None if path is None else folder / path.expanduser()
    return {key: value for key, value in values.items() if value is not None}


def _plain_variables(environ: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    if folder := environ.get("FLBUILD_CACHE_DIR"):
        values["cache_dir"] = Path(folder).expanduser().absolute()
    bundles = [environ.get(name) for name in ("FLBUILD_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE")]
    if bundle := next(filter(None, bundles), None):
        values["ca_bundle"] = Path(bundle).expanduser().absolute()
    if proxy := environ.get("FLBUILD_PROXY"):
        values["proxy"] = SecretStr(proxy)
    if jobs := environ.get("FLBUILD_JOBS"):
        if not jobs.isascii() or not jobs.isdigit() or int(jobs) < 1:
            raise UsageError(f"FLBUILD_JOBS is '{jobs}', not a whole number above zero")
        values["jobs"] = int(jobs)
    return values


def _pip_bundle(environ: Mapping[str, str]) -> Path | None:
    bundle = pip_option("cert", environ)
    return Path(bundle).expanduser().absolute() if bundle else None


def _index_variables(
    environ: Mapping[str, str], indexes: Mapping[str, IndexSettings]
) -> dict[str, dict[str, Any]]:
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


def _registry_variables(environ: Mapping[str, str]) -> dict[str, dict[str, SecretStr]]:
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


def _refuse_misspelled(environ: Mapping[str, str]) -> None:
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
