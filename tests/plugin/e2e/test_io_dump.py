"""The record of operators, asked for by a variable, on a whole engine (rung 3: the CPU reference device)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.plugin.checkpoints import Reference
from tests.plugin.e2e.conftest import Engines


def test_a_record_holds_the_operators_of_the_model_and_changes_no_token(
    start_engines: Callable[..., Engines],
    arguments: Callable[..., dict[str, Any]],
    expected: Callable[[str], list[Reference]],
    tmp_path: Path,
) -> None:
    engines = start_engines(
        "io_dump", VLLM_ENABLE_V1_MULTIPROCESSING="0", VLLM_FL_IO_DUMP=str(tmp_path / "dump")
    )
    engines.greedy(arguments("qwen3"), expected("qwen3")[:2])
    engines.close()
    records = sorted((tmp_path / "dump" / "rank_0").glob("*.jsonl"))
    assert records
    call = json.loads(records[0].read_text().splitlines()[0])
    assert {"step", "layer"} <= call.keys()
