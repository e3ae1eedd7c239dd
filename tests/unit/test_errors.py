"""What every error of the product says next."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import flbuild

PACKAGE = Path(flbuild.__file__).parent

WORDS = re.compile(r"\b(?:NAME|REF|PKG|URL|HOST|FOLDER|FILE|PATH|TAG|COMMIT|VERSION|IMAGE|MIRROR|INSTEAD)\b")
"""What stands for a value in a command."""

UNKNOWN = {
    ("cli/diff.py", "NAME"): "what to compare is the user's choice",
    ("cli/diff.py", "FILE"): "what to compare is the user's choice",
    ("cli/image.py", "FOLDER"): "where to write is the user's choice",
    ("cli/image.py", "FILE"): "where to write is the user's choice",
    ("index/client.py", "URL"): "the noun",
    ("lock/resolve.py", "URL"): "the noun",
    ("registry/reference.py", "TAG"): "a reference without one was given",
    ("verify/digest.py", "NAME"): "no entry of the lock holds the image",
    ("verify/digest.py", "REF"): "any reference may be asked for",
    ("verify/subject.py", "NAME"): "only the folder of a layout was named",
}
"""Where the user alone knows the value: by file and word, and why."""


def remedies() -> Iterator[tuple[str, str]]:
    """Every remedy in the code: the file, and its fixed text with what is filled in left out."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.keyword) and node.arg == "remedy":
                for inner in ast.walk(node.value):
                    if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
                        yield path.relative_to(PACKAGE).as_posix(), inner.value


def test_no_remedy_leaves_a_word_for_a_value_that_is_known():
    found = {(place, word) for place, text in remedies() for word in WORDS.findall(text)}
    assert found == set(UNKNOWN)
