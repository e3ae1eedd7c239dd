"""Where editable installs point to: PEP 610 records, .pth files, setuptools' finders."""

from __future__ import annotations

import ast
import json
from urllib.parse import unquote, urlsplit


def recorded_source(direct_url: bytes | None) -> str | None:
    """The source tree in a `direct_url.json` that says it is editable (PEP 610)."""
    try:
        content = json.loads(direct_url or b"null")
    except ValueError:
        return None
    if not isinstance(content, dict) or not (content.get("dir_info") or {}).get("editable"):
        return None
    return unquote(urlsplit(str(content.get("url", ""))).path)


def path_lines(content: bytes) -> list[str]:
    """The absolute folders that a .pth or .egg-link file names; lines that run code are none."""
    lines = (line.strip() for line in content.decode("utf-8", errors="replace").splitlines())
    return [line.rstrip("/") for line in lines if line.startswith("/") and line.strip("/")]


def finder_targets(source: bytes) -> list[str]:
    """The packages that a finder of setuptools' editable installs maps to, as absolute paths.

    A finder is a module with `MAPPING: dict[str, str] = {...}` from module names to files or folders.
    """
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError):
        return []
    for statement in body:
        if isinstance(statement, ast.AnnAssign):
            targets: list[ast.expr] = [statement.target]
        elif isinstance(statement, ast.Assign):
            targets = statement.targets
        else:
            continue
        if statement.value and any(isinstance(item, ast.Name) and item.id == "MAPPING" for item in targets):
            return _values(statement.value)
    return []


def _values(expression: ast.expr) -> list[str]:
    try:
        mapping = ast.literal_eval(expression)
    except (ValueError, TypeError):
        return []
    return sorted(map(str, mapping.values())) if isinstance(mapping, dict) else []
