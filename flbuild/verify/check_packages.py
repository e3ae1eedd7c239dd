"""The set of distributions is the locked one: nothing missing, nothing more, no other version."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from packaging.version import InvalidVersion, Version

from flbuild.finding import Finding
from flbuild.verify.context import Installed, Verification


def packages(verification: Verification) -> Iterator[Finding]:
    """Compare what is installed with lock and base."""
    installed: dict[str, list[Installed]] = defaultdict(list)
    for item in verification.installed:
        installed[item.name].append(item)
    expected = {item.name: item.version for item in verification.expected}
    base = verification.locked.base
    carried = {item.name: item.version for item in base.inventory} if base else {}
    provided = verification.recipe.base.provides

    for name, version in expected.items():
        yield from _compare(name, version, installed.get(name, []), "the lock")
    for name, version in provided.items():
        if name not in expected:
            yield from _compare(name, version, installed.get(name, []), "the base provides, and the recipe,")
    plugin = verification.recipe.plugin.name
    for name, items in installed.items():
        known = name in expected or name in carried or (name == plugin and verification.output is None)
        if not known:
            yield _error(name, f"{items[0].version} is installed, and neither lock nor base has it")
        elif name in carried and name not in expected and name in verification.recipe.base.remove:
            yield _error(name, f"{items[0].version} of the base is still there, the recipe removes it")
        if len(items) > 1:
            places = ", ".join(f"/{item.info}" for item in items)
            yield _error(name, f"it is installed {len(items)} times: {places}")


def _compare(name: str, version: str, items: list[Installed], who: str) -> Iterator[Finding]:
    if not items:
        yield _error(name, f"it is missing; {who} says {version}")
    for item in items:
        if not _same(item.version, version):
            yield _error(name, f"{item.version} is installed, {who} says {version}")


def _same(found: str, wanted: str) -> bool:
    try:
        return Version(found) == Version(wanted)
    except InvalidVersion:
        return found == wanted


def _error(name: str, message: str) -> Finding:
    return Finding("error", "packages", name, message, "build the image again from the lock")
