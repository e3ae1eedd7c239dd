"""Programs that flbuild runs."""

from __future__ import annotations

from collections.abc import Iterator

from uv import find_uv_bin

from flbuild.doctor.context import Machine, bad, good, lacking
from flbuild.finding import Finding
from flbuild.recipe.model import DebianBase


def uv(machine: Machine) -> Iterator[Finding]:
    """uv, which resolves and makes build environments, comes with flbuild."""
    try:
        version = machine.run(find_uv_bin(), "--version")
    except FileNotFoundError:
        version = None
    if version is None:
        yield bad("uv", "uv", "it does not run", "pip install --force-reinstall uv, beside flbuild")
    else:
        yield good("uv", "uv", version.removeprefix("uv "))


def git(machine: Machine) -> Iterator[Finding]:
    """git, which gives the plugin's commit and sources from git."""
    version = machine.run("git", "--version")
    if version is not None:
        yield good("git", "git", version.removeprefix("git version "))
        return
    yield bad("git", "git", "it is not installed", "apt-get install git")


def mmdebstrap(machine: Machine) -> Iterator[Finding]:
    """mmdebstrap, for recipes whose base is Debian."""
    version = machine.run("mmdebstrap", "--version")
    if version is not None:
        yield good("mmdebstrap", "mmdebstrap", version.removeprefix("mmdebstrap "))
        return
    needed = [recipe.name for recipe in machine.recipes if isinstance(recipe.base, DebianBase)]
    report = bad if needed else lacking
    yield report(
        "mmdebstrap",
        "mmdebstrap",
        f"it is not installed; Debian bases need it ({', '.join(needed) or 'no recipe here has one'})",
        "apt-get install mmdebstrap",
    )
