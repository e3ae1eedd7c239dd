"""YAML as recipes use it: plain values, each with the line it stands on.

The safe subset on purpose: no aliases, merge keys, tags or second documents, because a reader must see what
a recipe says without evaluating it, and duplicate keys are errors instead of the last one winning.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from flbuild.errors import RecipeError

Key = tuple[str | int, ...]

MAX_BYTES = 1 << 20


@dataclass(frozen=True)
class Problem:
    """What is wrong with one key of a document; the whole document when the key is empty."""

    key: Key
    text: str
    line: int | None = None


class InvalidRecipeError(RecipeError):
    """A recipe's file is invalid: every mistake, each with its place."""

    def __init__(self, document: Document, problems: Sequence[Problem]) -> None:
        lines = []
        for problem in problems:
            name = f"{key_text(problem.key)}: " if problem.key else ""
            lines.append(f"{document.shown}:{document.line_of(problem)}: {name}{problem.text}")
        super().__init__(
            "\n".join(lines),
            remedy=f"edit the file, then: flbuild recipe check {document.path.stem}",
        )
        self.document = document
        self.problems = tuple(problems)


@dataclass(frozen=True)
class Document:
    """The values of a file and where they stand; `source` keeps scalars as they were written."""

    path: Path
    data: Any
    lines: dict[Key, int] = field(default_factory=dict)
    source: dict[Key, str] = field(default_factory=dict)

    @property
    def shown(self) -> str:
        """The path as messages show it: from the project's root for a recipe, else as given."""
        parent = self.path.absolute().parent
        return f"{parent.name}/{self.path.name}" if parent.name == "recipes" else str(self.path)

    def line(self, key: Key) -> int:
        """The line of `key`, or of the nearest parent that has one; lines count from 1."""
        while key and key not in self.lines:
            key = key[:-1]
        return self.lines.get(key, 1)

    def line_of(self, problem: Problem) -> int:
        """The line a problem is about."""
        return self.line(problem.key) if problem.line is None else problem.line

    def find(self, text: str) -> Key:
        """The key that `key_text` writes as `text`, or its nearest parent that is in the file."""
        known = {key_text(key): key for key in self.lines}
        while text and text not in known:
            text = re.sub(r"(\.[^.\[]*|\[\d+\]|^[^.\[]*)$", "", text)
        return known.get(text, ())


def key_text(key: Key) -> str:
    """A key path as people write it: `packages[0].index`."""
    text = ""
    for part in key:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


class _Reader:
    def __init__(self, document: Document) -> None:
        self.document = document
        self.constructor = yaml.SafeLoader("")

    def read(self, node: yaml.Node, key: Key) -> Any:
        self.document.lines.setdefault(key, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, key)
        if isinstance(node, yaml.SequenceNode):
            return [self.read(item, (*key, index)) for index, item in enumerate(node.value)]
        self.document.source[key] = node.value
        try:
            return self.constructor.construct_object(node)
        except ValueError as error:  # such as the day 2027-02-30
            raise self._error(node, f"'{node.value}' is no valid value: {error}", key) from None

    def _mapping(self, node: yaml.MappingNode, key: Key) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for name_node, value_node in node.value:
            if name_node.tag == "tag:yaml.org,2002:merge":
                raise self._error(name_node, "merge keys (<<) are not part of recipes; write the keys out")
            if not isinstance(name_node, yaml.ScalarNode) or name_node.tag != "tag:yaml.org,2002:str":
                text = name_node.value if isinstance(name_node, yaml.ScalarNode) else "a list or a mapping"
                raise self._error(name_node, f"the key {text} is not text to YAML; write it in quotes")
            name = name_node.value
            child = (*key, name)
            if name in values:
                first = self.document.line(child)
                raise self._error(
                    name_node,
                    f"key '{key_text(child)}' is there twice, first on line {first}; keep one",
                )
            self.document.lines[child] = name_node.start_mark.line + 1
            values[name] = self.read(value_node, child)
        return values

    def _error(self, node: yaml.Node, what: str, key: Key = ()) -> RecipeError:
        return InvalidRecipeError(self.document, [Problem(key, what, node.start_mark.line + 1)])


class _Refused(Exception):
    def __init__(self, event: Any, what: str) -> None:
        super().__init__(what)
        self.line = event.start_mark.line + 1


class _Composer(yaml.SafeLoader):
    """Builds nodes, and refuses what recipes leave out."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent):
            raise _Refused(event, f"the alias *{event.anchor} is not part of recipes; write the value out")
        if getattr(event, "anchor", None) is not None:
            raise _Refused(event, f"the anchor &{event.anchor} is not part of recipes")
        if getattr(event, "tag", None) is not None:
            raise _Refused(event, f"the tag {event.tag} is not part of recipes")
        return super().compose_node(parent, index)


def read_document(path: Path) -> Document:
    """Read the YAML file `path`.

    Raises:
        RecipeError: it cannot be read, or is not the YAML that recipes are written in.
    """
    document = Document(path, None)
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise RecipeError(f"{document.shown} cannot be read", cause=error.strerror) from error
    if len(raw) > MAX_BYTES:
        raise _error(document, 1, f"the file has {len(raw)} bytes; a recipe has a few thousand")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise _error(document, line, "the file is not UTF-8 text") from error
    if "\r" in text:
        line = text.count("\n", 0, text.index("\r")) + 1
        raise _error(
            document, line, f"the line ends with CR LF; convert it: sed -i 's/\\r$//' {document.shown}"
        )
    try:
        # One composer per file: SafeLoader is a pure function of its text.
        node = _Composer(text).get_single_node()
        if node is None:
            raise _error(document, 1, "the file is empty")
        reader = _Reader(document)
        data = reader.read(node, ())
    except _Refused as error:
        raise _error(document, error.line, str(error)) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _error(document, mark.line + 1 if mark else 1, _yaml_problem(error, text, mark)) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise _error(
            document, line, f"the character U+{int(error.character):04X} cannot stand in YAML"
        ) from None
    except RecursionError:
        raise _error(document, 1, "lists or mappings are nested too deeply") from None
    return Document(path, data, document.lines, document.source)


def _yaml_problem(error: yaml.MarkedYAMLError, text: str, mark: Any) -> str:
    if mark is not None:
        lines = text.splitlines()
        line = lines[mark.line] if mark.line < len(lines) else ""
        if line[: len(line) - len(line.lstrip())].count("\t") or line[mark.column : mark.column + 1] == "\t":
            return "a tab; YAML indents with spaces only"
    if "expected a single document" in (error.context or ""):
        return "a second document (---) begins; one file is one recipe"
    context = f" {error.context}" if error.context else ""
    return f"not valid YAML{context}: {error.problem}"


def _error(document: Document, line: int, what: str) -> RecipeError:
    return InvalidRecipeError(document, [Problem((), what, line)])
