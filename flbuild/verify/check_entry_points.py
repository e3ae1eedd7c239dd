"""The plugin is found by those who look for it: its entry points are installed and lead to a module."""

from __future__ import annotations

from collections.abc import Iterator
from configparser import ConfigParser, Error

from flbuild.finding import Finding
from flbuild.verify.context import Verification


def entry_points(verification: Verification) -> Iterator[Finding]:
    """Every group that the recipe names has an entry point of the plugin, whose module is in the image."""
    plugin = verification.recipe.plugin
    info = next((item.info for item in verification.installed if item.name == plugin.name), None)
    if info is None:
        return
    content = verification.view.contents.get(f"{info}/entry_points.txt", b"").decode(errors="replace")
    parser = ConfigParser(delimiters=("=",), interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # names are case-sensitive
    try:
        parser.read_string(content)
    except Error as error:
        yield _error(plugin.name, f"entry_points.txt cannot be read: {error}")
        return
    for group in plugin.entry_points:
        found = dict(parser.items(group)) if parser.has_section(group) else {}
        if not found:
            yield _error(group, f"{plugin.name} has no entry point in this group")
        for name, value in found.items():
            module = value.partition(":")[0].split("[")[0].strip().replace(".", "/")
            places = (f"{module}.py", f"{module}/__init__.py")
            if not any(
                f"{verification.site_packages}/{place}" in verification.view.files for place in places
            ):
                yield _error(group, f"'{name} = {value}' leads to a module that is not in the image")


def _error(subject: str, message: str) -> Finding:
    return Finding("error", "entry-points", subject, message, "correct the plugin's pyproject.toml")
