"""The indexes and registries that the recipes name: whether they answer, and what redirects them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import requests

from flbuild.doctor.context import SECONDS, Machine, bad, good, lacking
from flbuild.finding import Finding
from flbuild.index.client import is_url
from flbuild.lock.resolve import INDEX
from flbuild.recipe.model import ImageBase, Recipe
from flbuild.registry.reference import DOCKER_HUB, Reference
from flbuild.settings import Settings, index_variable, redact, redact_url, registry_variable
from flbuild.settings.model import is_loopback


def indexes(machine: Machine) -> Iterator[Finding]:
    """The default index has to answer; another one only matters to the recipes that name it."""
    users: dict[str, list[str]] = {INDEX: [recipe.name for recipe in machine.recipes]}
    for recipe in machine.recipes:
        for package in recipe.packages:
            if package.index is not None and recipe.name not in users.setdefault(package.index, []):
                users[package.index].append(recipe.name)
    with ThreadPoolExecutor() as pool:
        yield from pool.map(lambda item: _index(machine.settings, *item), users.items())


def registries(machine: Machine) -> Iterator[Finding]:
    """Registries of bases and of published images; no build of a Debian base needs one."""
    users: dict[str, list[str]] = {}
    for recipe in machine.recipes:
        for host in _hosts(recipe):
            users.setdefault(host, []).append(recipe.name)
    with ThreadPoolExecutor() as pool:
        yield from pool.map(lambda item: _registry(machine.settings, *item), users.items())


def _index(settings: Settings, index: str, users: list[str]) -> Finding:
    url = settings.index(index).url
    needed = f"needed by {', '.join(users)}" if users else "the default index"
    remedy = f"check the network and proxy, or set {index_variable(index)} to a mirror or a local folder"
    report = bad if index == INDEX else lacking
    if url is None:
        return report("indexes", index, f"it has no URL; {needed}", remedy)
    if not is_url(url):
        if Path(url).is_dir():
            return good("indexes", index, f"the folder {url}")
        return report("indexes", index, f"{url} is not a folder; {needed}", remedy)
    # The page of one project: whole indexes list every project, which is tens of megabytes.
    problem = _ask(settings, f"{url.rstrip('/')}/pip/", settings.ca_bundle)
    if problem is None:
        return good("indexes", index, f"{redact_url(url)} answers")
    return report("indexes", index, f"{redact_url(url)} does not answer: {problem}; {needed}", remedy)


def _registry(settings: Settings, host: str, users: list[str]) -> Finding:
    own = settings.registry(host)
    place = own.mirror or ("registry-1.docker.io" if host == DOCKER_HUB else host)
    place = place.partition("/")[0]
    scheme = "http" if own.plain_http or is_loopback(place) else "https"
    problem = _ask(settings, f"{scheme}://{place}/v2/", own.ca_bundle or settings.ca_bundle)
    if problem is None:
        return good("registries", host, "answers" + (f" at {place}" if place != host else ""))
    return lacking(
        "registries",
        host,
        f"does not answer: {problem}; needed by {', '.join(users)}",
        f"check the network and proxy, or set {registry_variable(host)} to a mirror",
    )


def _ask(settings: Settings, url: str, bundle: Path | None) -> str | None:
    """None if something answers, with any status; else why not."""
    proxy = None if settings.proxy is None else settings.proxy.get_secret_value()
    try:
        requests.head(
            url,
            timeout=SECONDS,
            verify=True if bundle is None else str(bundle),
            proxies=None if proxy is None else {"http": proxy, "https": proxy},
        )
    except (requests.RequestException, OSError) as error:
        return settings.redact(redact(type(error).__name__))
    return None


def _hosts(recipe: Recipe) -> list[str]:
    hosts = [Reference.parse(recipe.image.repository).host]
    if isinstance(recipe.base, ImageBase):
        hosts.append(Reference.parse(recipe.base.image).host)
    return list(dict.fromkeys(hosts))
