"""Modules belong to the distributions that the recipe says: two providers of one module break each other."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Iterator

from flbuild.finding import Finding
from flbuild.verify.context import Verification


def modules(verification: Verification) -> Iterator[Finding]:
    """The files of each provided module are recorded by its provider, and by nobody else."""
    wanted = {
        module: package.name
        for package in verification.recipe.packages
        for module in package.provides_modules
    }
    if not wanted:
        return
    owners = module_owners(verification)
    for module, owner in wanted.items():
        found = owners.get(module, set())
        if owner not in found:
            yield _error(module, f"no file of it belongs to {owner}; it belongs to {_names(found)}")
        for other in sorted(found - {owner}):
            yield _error(module, f"{other} also wrote files of it, over those of {owner}")


def module_owners(verification: Verification) -> dict[str, set[str]]:
    """Distributions by top-level module, as RECORD files claim."""
    owners: dict[str, set[str]] = defaultdict(set)
    for item in verification.installed:
        content = verification.view.contents.get(f"{item.info}/RECORD", b"").decode(errors="replace")
        for row in csv.reader(io.StringIO(content)):
            if row:
                top = row[0].split("/", 1)[0]
                owners[top.removesuffix(".py")].add(item.name)
    return owners


def _names(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "nobody"


def _error(module: str, message: str) -> Finding:
    return Finding("error", "modules", module, message, "remove the other provider from the base or the lock")
