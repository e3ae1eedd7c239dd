"""Reading `flbuild.toml`: strict models, and messages that name the file, the line and the key."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, Field, SecretStr, ValidationError

from flbuild.errors import UsageError
from flbuild.settings.model import SettingsModel
from flbuild.settings.toml import TomlError, parse_toml
from flbuild.suggest import perhaps


class FileModel(SettingsModel):
    """Keys are written with hyphens, as in other TOML files."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        alias_generator=lambda name: name.replace("_", "-"),
    )


class IndexTable(FileModel):
    """`[index.ID]`"""

    url: str | None = None
    username: SecretStr | None = None
    password: SecretStr | None = None
    summary: str = ""


class RegistryTable(FileModel):
    """`[registry."HOST"]`"""

    mirror: str | None = None
    plain_http: bool | None = None
    ca_bundle: Path | None = None
    username: SecretStr | None = None
    password: SecretStr | None = None


class DebianTable(FileModel):
    """`[debian]`"""

    sources: tuple[str, ...] = ()


class SettingsFile(FileModel):
    """The whole of `flbuild.toml`. Relative paths are relative to its folder."""

    find_links: tuple[str, ...] = ()
    cache_dir: Path | None = None
    ca_bundle: Path | None = None
    proxy: SecretStr | None = None
    jobs: int | None = Field(default=None, gt=0)
    debian: DebianTable = DebianTable()
    index: dict[str, IndexTable] = Field(default_factory=dict)
    registry: dict[str, RegistryTable] = Field(default_factory=dict)


def read_settings_file(path: Path) -> SettingsFile:
    """Read one settings file; a missing one is an empty one.

    Raises:
        UsageError: it is not TOML, or holds an unknown key or a wrong value.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return SettingsFile()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read", cause=str(error)) from error
    try:
        return SettingsFile.model_validate(parse_toml(text))
    except TomlError as error:
        raise UsageError(f"{path} is not valid TOML", cause=str(error), remedy=f"edit {path}") from error
    except ValidationError as error:
        # The error's own text may repeat a credential, so only places and kinds are taken from it.
        problems = [
            _problem(path, text, dict(item)) for item in error.errors(include_input=False, include_url=False)
        ]
        raise UsageError("\n".join(problems), remedy=f"edit {path}") from None


def _problem(path: Path, text: str, item: Mapping[str, Any]) -> str:
    keys = tuple(str(part) for part in item["loc"])
    place = f"{path}:{_line_of(text, keys)}"
    if item["type"] == "extra_forbidden":
        return f"{place}: unknown key '{'.'.join(keys)}'{perhaps(keys[-1], _known_keys(keys))}"
    return f"{place}: '{'.'.join(keys)}': {item['msg'].lower()}"


def _known_keys(keys: tuple[str, ...]) -> list[str]:
    tables: dict[str, type[FileModel]] = {
        "debian": DebianTable,
        "index": IndexTable,
        "registry": RegistryTable,
    }
    model = tables.get(keys[0], SettingsFile)
    return [field.alias or name for name, field in model.model_fields.items()]


def _line_of(text: str, keys: tuple[str, ...]) -> int:
    """The line that sets `keys`, or its nearest parent; the TOML parser itself keeps no places."""
    table: tuple[str, ...] = ()
    best = (0, 1)
    for number, line in enumerate(text.splitlines(), start=1):
        if header := re.match(r"\s*\[+(.+?)\]+\s*(?:#.*)?$", line):
            table = _split(header[1])
            found = table
        elif setting := re.match(
            r"\s*((?:[\w-]+|\"[^\"]*\"|'[^']*')(?:\s*\.\s*(?:[\w-]+|\"[^\"]*\"|'[^']*'))*)\s*=", line
        ):
            found = (*table, *_split(setting[1]))
        else:
            continue
        shared = len(list(takewhile(lambda pair: pair[0] == pair[1], zip(keys, found, strict=False))))
        if shared > best[0]:
            best = (shared, number)
    return best[1]


def _split(dotted: str) -> tuple[str, ...]:
    return tuple(
        double or single or bare
        for double, single, bare in re.findall(r"\"([^\"]*)\"|'([^']*)'|([\w-]+)", dotted)
    )
