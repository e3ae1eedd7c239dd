"""YAML without its traps: plain data only, and no key twice."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import yaml


class StrictLoader(yaml.SafeLoader):
    """A safe loader that refuses a key given twice, where YAML would silently keep the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, Hashable) and key in seen:
                raise ValueError(f"key {key!r} appears twice (line {key_node.start_mark.line + 1})")
            seen.add(key)
        return super().construct_mapping(node, deep)


def load(text: str) -> Any:
    """The data in a YAML text. Raises ValueError for anything that is not plain data."""
    try:
        return yaml.load(text, Loader=StrictLoader)  # noqa: S506 - it derives from SafeLoader
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None
