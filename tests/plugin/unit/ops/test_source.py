"""Forms of code that operator libraries of devices have failed on. Rung 1: the source itself."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import vllm_fl

PACKAGE = Path(vllm_fl.__file__).parent
FOLDERS = ("attention", "ops", "distributed", "dispatch/backends")


def subscripts(source: str) -> Iterator[str]:
    """``t[i, :, j]``: indices on both sides of a slice, which torch hands to operators as None entries."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple):
            kinds = "".join("s" if isinstance(entry, ast.Slice) else "i" for entry in node.slice.elts)
            names = [e for e in node.slice.elts if isinstance(e, (ast.Name, ast.Attribute, ast.Call))]
            if re.search("is+i", kinds) and len(names) > 1:
                yield ast.unparse(node)


def test_B78_no_tensor_is_indexed_on_both_sides_of_a_slice() -> None:
    assert list(subscripts("t[ids0, :, ids2]")) == ["t[ids0, :, ids2]"]
    assert list(subscripts("t[ids0, ids1, :] + t[:, a] + t[0, :, 1] + t[..., :n]")) == []
    for folder in FOLDERS:
        for file in (PACKAGE / folder).rglob("*.py"):
            assert not list(subscripts(file.read_text())), file


@pytest.mark.parametrize("name", ["compile", "jit"])
def test_B83_nothing_is_compiled(name: str) -> None:
    for folder in FOLDERS:
        for file in (PACKAGE / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Attribute) and node.attr == name:
                    assert not (isinstance(node.value, ast.Name) and node.value.id in ("torch", "triton")), (
                        file
                    )
