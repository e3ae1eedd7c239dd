"""The canonical hash of a recipe: equal when, and only when, the same image is meant.

The lock stores it to notice that a recipe changed. So that neither a new version of a library nor another
machine changes it, the hashed form is spelled out here, field by field, as JSON of plain values with sorted
keys. Lists whose order means nothing are sorted. FORMAT changes when the form does.

Left out is what changes neither the locked inputs nor a byte of an image: `summary`, `image` (where it is
published), `ci` (how it is tested), and what only checks read: `waivers`, `base.components`,
`plugin.entry_points` and a target's `size_budget`. `forbid` stays, because no lock may hold what it names.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from flbuild.recipe.model import DebianBase, ImageBase, Package, Recipe
from flbuild.recipe.targets import expand_target

FORMAT = 1


def canonical_hash(recipe: Recipe) -> str:
    """`sha256:` and the hexadecimal digest of the recipe's canonical form."""
    text = json.dumps(canonical_form(recipe), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return f"sha256:{hashlib.sha256(text.encode('ascii')).hexdigest()}"


def canonical_form(recipe: Recipe) -> dict[str, Any]:
    """What is hashed, as plain JSON values; targets are expanded, so `extends` is a matter of style."""
    return {
        "format": FORMAT,
        "name": recipe.name,
        "platform": recipe.platform,
        "python": {
            "version": recipe.python.version,
            "executable": recipe.python.executable,
            "site_packages": recipe.python.site_packages,
            "scripts": recipe.python.scripts,
            "bytecode": recipe.python.bytecode,
        },
        "base": _base(recipe.base),
        "vllm": {"version": recipe.vllm.version, "device": recipe.vllm.device},
        "packages": [_package(package) for package in sorted(recipe.packages, key=lambda item: item.name)],
        "overrides": sorted(recipe.overrides),
        "forbid": sorted(recipe.forbid),
        "plugin": {"path": recipe.plugin.path, "name": recipe.plugin.name},
        "targets": {name: sorted(expand_target(recipe, name).packages) for name in recipe.targets},
        "env": dict(recipe.env),
        "entrypoint": list(recipe.entrypoint),
        "cmd": list(recipe.cmd),
        "workdir": recipe.workdir,
    }


def _base(base: ImageBase | DebianBase) -> dict[str, Any]:
    common = {
        "kind": base.kind,
        "provides": dict(base.provides),
        "remove": sorted(base.remove),
    }
    if isinstance(base, ImageBase):
        return {**common, "image": base.image}
    return {**common, "debian": base.debian, "packages": sorted(base.packages)}


def _package(package: Package) -> dict[str, Any]:
    return {
        "name": package.name,
        "version": package.version,
        "index": "pypi" if package.index is None and package.git is None else package.index,
        "git": package.git,
        "commit": package.commit,
        "provides_modules": dict(package.provides_modules),
        "build_env": dict(package.build_env),
    }
