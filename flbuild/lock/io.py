"""Reading and writing `images.lock`: the same lock gives the same bytes, and never half of them."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from flbuild.errors import HostError, LockStaleError
from flbuild.files import write_atomic
from flbuild.lock.model import Lock, LockedFile, LockedImage
from flbuild.lock.seal import seal_of, slim, tools_seal_of

_HEADER = "# Written by `flbuild lock`; editing it by hand is refused by `flbuild lock --check`.\n"

_KEPT_EMPTY = frozenset({"packages", "images"})
"""Keys that readers may rely on even when there is nothing in them."""

_SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_lock(path: Path) -> Lock:
    """The lock at `path`; a missing file is an empty lock.

    Raises:
        LockStaleError: it is no lock of a version this flbuild reads.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Lock()
    except (OSError, UnicodeDecodeError) as error:
        raise LockStaleError(f"{path} cannot be read", cause=str(error)) from error
    return parse_lock(text, path)


def parse_lock(text: str, path: Path) -> Lock:
    """The lock that `text` holds; `path` is for messages."""
    remedy = f"git checkout {path.name}, or move it out of the way and run flbuild lock"
    try:
        data = yaml.load(text, Loader=_Loader)  # noqa: S506 - a safe loader, in C where there is one
        return Lock.model_validate(data if data is not None else {})
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = f":{mark.line + 1}" if mark else ""
        raise LockStaleError(f"{path}{line}: not valid YAML", cause=error.problem, remedy=remedy) from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        raise LockStaleError(
            f"{path}: '{key}': {first['msg'].lower()}",
            cause="it was edited by hand, or written by another version of flbuild",
            remedy=remedy,
        ) from error


def dump_lock(lock: Lock) -> str:
    """The text of a lock: models' field order, entries sorted, one pin a line, LF, a newline at the end."""
    data = slim(_sorted(lock).model_dump(mode="json"), _KEPT_EMPTY)
    text = yaml.dump(data, Dumper=_Dumper, sort_keys=False, width=float("inf"), allow_unicode=True)
    return _HEADER + str(text)


def write_lock(path: Path, lock: Lock) -> None:
    """Write a lock in one step; a file that already holds it is left alone."""
    text = dump_lock(lock)
    if not path.is_file() or path.read_bytes() != text.encode():
        write_atomic(path, text)


def update_lock(path: Path, change: Callable[[Lock], Lock]) -> Lock:
    """Read, change and write the lock while no other flbuild process does; the lock as written."""
    with _exclusive(path):
        lock = change(read_lock(path))
        write_lock(path, lock)
        return lock


@contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    # The folder itself is locked, not a file beside the lock: nothing is left behind that could be committed.
    try:
        descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise HostError(f"the folder of {path} cannot be opened", cause=str(error)) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _sorted(lock: Lock) -> Lock:
    images = {name: _sorted_image(lock.images[name]) for name in sorted(lock.images)}
    tools = _by_name(lock.build_tools)
    # A seal that is there stays: what was edited by hand must not be sealed by whoever writes next.
    seal = lock.build_tools_seal or (tools_seal_of(tools) if tools else None)
    return lock.model_copy(update={"images": images, "build_tools": tools, "build_tools_seal": seal})


def _sorted_image(image: LockedImage) -> LockedImage:
    ordered = image.model_copy(
        update={
            "sources": tuple(sorted(image.sources, key=lambda source: (source.name, source.version))),
            "packages": _by_name(image.packages),
            "targets": {name: _by_name(image.targets[name]) for name in sorted(image.targets)},
            "unresolved": tuple(sorted(image.unresolved, key=lambda item: (item.source, item.name))),
        }
    )
    return ordered.model_copy(update={"seal": image.seal or seal_of(ordered)})


def _by_name(files: tuple[LockedFile, ...]) -> tuple[LockedFile, ...]:
    return tuple(sorted(files, key=lambda file: (file.name, file.version, file.filename)))


class _Loader(_SafeLoader):  # type: ignore[misc]
    """A key that is there twice, as a bad merge leaves it, is an error instead of the last one winning."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names: set[str] = set()
        for key, _ in node.value:
            if key.value in names:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key '{key.value}' is there twice", key.start_mark
                )
            names.add(key.value)
        return dict(super().construct_mapping(node, deep))


class _Dumper(yaml.SafeDumper):
    """A list's item that holds no list itself takes one line; everything else is in block style."""

    def represent_sequence(
        self, tag: str, sequence: Any, flow_style: bool | None = None
    ) -> yaml.SequenceNode:
        node = super().represent_sequence(tag, sequence, flow_style=False)
        for item in node.value:
            if isinstance(item, yaml.MappingNode) and _is_one_pin(item):
                item.flow_style = True
        return node

    def represent_mapping(self, tag: str, mapping: Any, flow_style: bool | None = None) -> yaml.MappingNode:
        return super().represent_mapping(tag, mapping, flow_style=False)

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _is_one_pin(node: yaml.MappingNode) -> bool:
    return not any(
        isinstance(value, yaml.SequenceNode)
        or (isinstance(value, yaml.MappingNode) and not _is_one_pin(value))
        for _, value in node.value
    )
