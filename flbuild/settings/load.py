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
from pypi_simple import PYPI_SIMPLE_ENDPOINT

from flbuild.errors import UsageError
from flbuild.settings.file import SettingsFile, read_settings_file
from flbuild.settings.model import IndexSettings, RegistrySettings, Settings, is_loopback
from flbuild.settings.names import mangle
from flbuild.settings.pip import pip_option
from flbuild.settings.places import expand, local_or_url
from flbuild.settings.toml import parse_toml
from flbuild.settings.variables import index_variables, plain_variables, refuse_misspelled, registry_variables
from flbuild.suggest import perhaps

FILE_NAME = "flbuild.toml"


def load_settings(root: Path | None, environ: Mapping[str, str]) -> Settings:
    """Settings for the project at `root`, or for no project.

    Raises:
        UsageError: a file or a variable holds something unknown or wrong.
    """
    user = _user_file(environ)
    paths = [user] if root is None else [user, root / FILE_NAME]
    refuse_misspelled(environ)

    indexes = _builtin_indexes()
    if url := pip_option("index-url", environ):
        indexes["pypi"] = _index(indexes["pypi"], {"url": url}, Path.cwd())
    registries: dict[str, RegistrySettings] = {}
    merged: dict[str, Any] = {}
    find_links: tuple[str, ...] = ()
    for path in paths:
        folder, source = path.parent, read_settings_file(path)
        for index_id, table in source.index.items():
            given = table.model_dump(exclude_unset=True)
            _refuse_stray(index_id, given, indexes, path)
            indexes[index_id] = _index(indexes.get(index_id, IndexSettings()), given, folder)
        for host, registry in source.registry.items():
            given, host = registry.model_dump(exclude_unset=True), host.lower()
            registries[host] = _registry(registries.get(host), host, given, folder)
        find_links = (*(local_or_url(link, folder) for link in source.find_links), *find_links)
        merged.update(_plain(source, folder))

    merged.update(plain_variables(environ))
    for index_id, given in index_variables(environ, indexes).items():
        indexes[index_id] = _index(indexes[index_id], given, Path.cwd())
    links = (
        *environ.get("FLBUILD_FIND_LINKS", "").split(),
        *find_links,
        *pip_option("find-links", environ).split(),
    )
    return Settings(
        indexes=indexes,
        registries=registries,
        registry_variables=registry_variables(environ),
        find_links=tuple(dict.fromkeys(local_or_url(link, Path.cwd()) for link in links)),
        debian_sources=merged.get("debian_sources", ()),
        cache_dir=merged.get("cache_dir") or _user_cache(),
        ca_bundle=merged.get("ca_bundle") or _pip_bundle(environ),
        proxy=merged.get("proxy"),
        jobs=merged.get("jobs") or max(2, min(8, os.cpu_count() or 2)),
    )


def _user_file(environ: Mapping[str, str]) -> Path:
    if named := environ.get("FLBUILD_CONFIG"):
        path = expand(Path(named))
        if not path.is_file():
            raise UsageError(
                f"FLBUILD_CONFIG names {path}, which is not a file", remedy="unset FLBUILD_CONFIG, or fix it"
            )
        return path
    return user_config_path("flbuild") / FILE_NAME


def _user_cache() -> Path:
    folder = user_cache_path("flbuild")
    if not folder.is_absolute():
        # Without a home folder this would be one called ~ in whatever folder the command runs.
        raise UsageError(
            "this user has no home folder to keep a cache in", remedy="set FLBUILD_CACHE_DIR, or HOME"
        )
    return folder


def _builtin_indexes() -> dict[str, IndexSettings]:
    data = parse_toml(files("flbuild.settings").joinpath("indexes.toml").read_text(encoding="utf-8"))
    data["pypi"]["url"] = PYPI_SIMPLE_ENDPOINT
    return {index_id: IndexSettings(**table) for index_id, table in data.items()}


def _index(below: IndexSettings, given: Mapping[str, Any], folder: Path) -> IndexSettings:
    values = dict(given)
    if place := values.pop("url", None):
        below = below.redirected(place, folder)
    return below.model_copy(update=values)


def _refuse_stray(
    index_id: str, given: Mapping[str, Any], known: Mapping[str, IndexSettings], path: Path
) -> None:
    """Refuse a table that would be a new index only because its name is misspelled."""
    if index_id in known:
        return
    if not given.get("url") or mangle(index_id) in map(mangle, known):
        raise UsageError(
            f"{path}: [index.{index_id}] is no known index{perhaps(index_id, known)}",
            cause="a new index needs a url, and a name that is not another's in upper case",
            remedy=f"edit {path}",
        )


def _registry(
    below: RegistrySettings | None, host: str, given: Mapping[str, Any], folder: Path
) -> RegistrySettings:
    values = dict(given)
    if values.get("ca_bundle") is not None:
        values["ca_bundle"] = folder / expand(Path(values["ca_bundle"]))
    return (below or RegistrySettings(plain_http=is_loopback(host))).changed(values)


def _plain(source: SettingsFile, folder: Path) -> dict[str, Any]:
    values: dict[str, Any] = {"proxy": source.proxy, "jobs": source.jobs}
    for key in ("cache_dir", "ca_bundle"):
        path: Path | None = getattr(source, key)
        values[key] = None if path is None else folder / expand(path)
    if source.debian.sources:
        values["debian_sources"] = tuple(_debian_source(text, folder) for text in source.debian.sources)
    return {key: value for key, value in values.items() if value is not None}


def _debian_source(text: str, folder: Path) -> str:
    """A source line or a mirror as it is, a file with its absolute path."""
    if text.startswith("deb ") or "://" in text:
        return text
    return str(folder.absolute() / expand(Path(text)))


def _pip_bundle(environ: Mapping[str, str]) -> Path | None:
    bundle = pip_option("cert", environ)
    return expand(Path(bundle)).absolute() if bundle else None
