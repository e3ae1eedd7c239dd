from __future__ import annotations

import json
from pathlib import Path

import pytest
from vllm_fl.checkpoint import INDEX, check_shards


def write_index(folder: Path, *files: str) -> None:
    weights = {f"layer.{number}.weight": name for number, name in enumerate(files)}
    (folder / INDEX).write_text(json.dumps({"weight_map": weights}))


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    write_index(tmp_path, "a.safetensors", "b.safetensors")
    (tmp_path / "a.safetensors").touch()
    with pytest.raises(ValueError, match=r"names 2 files, of which 1 are missing \(b.safetensors\)"):
        check_shards(tmp_path)


def test_a_complete_checkpoint_passes(tmp_path: Path) -> None:
    write_index(tmp_path, "a.safetensors")
    (tmp_path / "a.safetensors").touch()
    check_shards(tmp_path)


def test_names_that_are_not_folders_and_folders_without_index_are_left_alone(tmp_path: Path) -> None:
    check_shards(tmp_path)
    check_shards(Path("organisation/model"))
