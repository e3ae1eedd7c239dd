"""Seals: hashes over the inputs in the lock, so that an edit by hand is seen without a network.

Every entry has one, and the build tools have theirs. They guard against accidents, such as a bad merge or a
pin changed in an editor, not against somebody who means harm and computes them anew: for them there are the
hashes of the files themselves. Recorded outputs are not sealed. What has no seal was never written by
`flbuild lock`, and counts as it stands.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from flbuild.errors import LockStaleError
from flbuild.files import sha256_bytes
from flbuild.lock.model import Lock, LockedFile, LockedImage

EDITED = "not as it was written: a pin was edited, added or removed by hand"


def seal_of(image: LockedImage) -> str:
    """`sha256:` and the hexadecimal digest of an entry's inputs: JSON, keys sorted, empty ones left out."""
    return _digest(image.model_dump(mode="json", exclude={"outputs", "seal"}))


def tools_seal_of(tools: Iterable[LockedFile]) -> str:
    """The same over the pins of the build tools, in the order of the lock."""
    return _digest([tool.model_dump(mode="json") for tool in tools])


def is_sealed(image: LockedImage) -> bool:
    """Whether the entry is as `flbuild lock` wrote it."""
    return image.seal in (None, seal_of(image))


def tools_are_sealed(lock: Lock) -> bool:
    """Whether the build tools are as `flbuild lock` wrote them."""
    return lock.build_tools_seal in (None, tools_seal_of(lock.build_tools))


def require_sealed(lock: Lock, names: Iterable[str] = ()) -> None:
    """Nothing if the build tools and the named entries are as `flbuild lock` wrote them.

    Raises:
        LockStaleError: something was edited by hand.
    """
    edited = [] if tools_are_sealed(lock) else ["build_tools"]
    edited += [name for name in names if not is_sealed(lock.images[name])]
    if edited:
        raise LockStaleError(
            "\n".join(f"images.lock: {name}: {EDITED}" for name in edited),
            remedy="git checkout images.lock, or flbuild lock looks its pins up again",
        )


def _digest(inputs: Any) -> str:
    text = json.dumps(slim(inputs), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return f"sha256:{sha256_bytes(text.encode('ascii'))}"


def slim(value: Any, keep: frozenset[str] = frozenset()) -> Any:
    """Plain values without keys that hold nothing: a model's default says the same. Those in `keep` stay."""
    if isinstance(value, dict):
        items = ((key, slim(item, keep)) for key, item in value.items())
        return {key: item for key, item in items if key in keep or not _is_nothing(item)}
    if isinstance(value, list):
        return [slim(item, keep) for item in value]
    return value


def _is_nothing(value: Any) -> bool:
    return value is None or value is False or value in ([], {})
