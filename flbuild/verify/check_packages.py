"""The set of distributions is the locked one: nothing missing, nothing more, no other version."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from packaging.version import InvalidVersion, Version

from flbuild.finding import Finding
from flbuild.verify.context import Installed, Verification


def packages(verification: Verification) -> Iterator[Finding]:
    """Compare what is installed with the lock, and with what the base carries and has to provide."""
    installed: dict[str, list[Installed]] = defaultdict(list)
    for item in verification.installed:
        installed[item.name].append(item)
    wanted = _wanted(verification)
    for name, (version, who) in wanted.items():
        yield from _compare(name, version, installed.get(name, []), who)
    removed = set(verification.recipe.base.remove) - set(wanted)
    unknown_plugin = verification.recipe.plugin.name if verification.output is None else None
    for name, items in installed.items():
        if name in removed:
            yield _error(name, f"{items[0].version} of the base is still there, the recipe removes it")
        elif name not in wanted and name != unknown_plugin:
            yield _error(name, f"{items[0].version} is installed, and neither lock nor base has it")
        if len(items) > 1:
            places = ", ".join(f"/{item.info}" for item in items)
            yield _error(name, f"it is installed {len(items)} times: {places}")


def _wanted(verification: Verification) -> dict[str, tuple[str, str]]:
    """Version of everything that has to be there, and who says so; what is installed above the base wins."""
    base, recipe = verification.locked.base, verification.recipe
    carried = base.inventory if base is not None else ()
    wanted = {
        item.name: (item.version, "the base's inventory")
        for item in carried
        if item.name not in recipe.base.remove
    }
    wanted |= {name: (version, "the base provides") for name, version in recipe.base.provides.items()}
    wanted |= {item.name: (item.version, "the lock") for item in verification.expected}
    return wanted


def _compare(name: str, version: str, items: list[Installed], who: str) -> Iterator[Finding]:
    says = f"{who} {version}" if who.endswith("provides") else f"{who} says {version}"
    if not items:
        yield _error(name, f"it is missing; {says}")
    for item in items:
        if not _same(item.version, version):
            yield _error(name, f"{item.version} is installed, {says}")


def _same(found: str, wanted: str) -> bool:
    try:
        return Version(found) == Version(wanted)
    except InvalidVersion:
        return found == wanted


def _error(name: str, message: str) -> Finding:
    return Finding("error", "packages", name, message, "build the image again from the lock")
