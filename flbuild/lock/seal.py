"""The seal of an entry: a hash over all its inputs, so that an edit by hand is seen without a network.

It guards against accidents, such as a bad merge or a pin changed in an editor, not against somebody who means
harm and computes it anew: for them there are the hashes of the files themselves. Recorded outputs are not
sealed. An entry without a seal was never written by `flbuild lock`, and counts as it stands.
"""

from __future__ import annotations

import json
from typing import Any

from flbuild.files import sha256_bytes
from flbuild.lock.model import LockedImage


def seal_of(image: LockedImage) -> str:
    """`sha256:` and the hexadecimal digest of an entry's inputs: JSON, keys sorted, empty ones left out."""
    inputs = slim(image.model_dump(mode="json", exclude={"outputs", "seal"}))
    text = json.dumps(inputs, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
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
