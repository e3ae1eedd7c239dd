"""Checks of a checkpoint folder that need no weights."""

from __future__ import annotations

import json
from pathlib import Path

INDEX = "model.safetensors.index.json"


def check_shards(folder: Path) -> None:
    """Raise ValueError when files that the index of a local checkpoint names are missing.

    vLLM skips such files and complains, after reading all others, about parameters without weights. A
    model name that is not a local folder, and a checkpoint without an index, are not checked.
    """
    index = folder / INDEX
    if not index.is_file():
        return
    named = set(json.loads(index.read_text())["weight_map"].values())
    missing = sorted(name for name in named if not (folder / name).is_file())
    if missing:
        raise ValueError(
            f"Checkpoint {folder} is incomplete: {INDEX} names {len(named)} files, of which {len(missing)} "
            f"are missing ({', '.join(missing[:3])}{', ...' if len(missing) > 3 else ''}). Fetch them again"
        )
