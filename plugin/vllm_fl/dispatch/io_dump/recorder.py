"""Calls to lines and files."""

from __future__ import annotations

import json
import logging
import os
import re
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import torch

from vllm_fl.dispatch.io_dump.describe import describe, snapshot
from vllm_fl.dispatch.io_dump.filters import Filters, Place
from vllm_fl.dispatch.io_dump.writer import Writer

logger = logging.getLogger(__name__)


class Recorder:
    """Counts every call it is shown, and writes those that the filters want."""

    def __init__(
        self, folder: Path, filters: Filters, writer: Writer, *, metas: bool, values: bool, log: bool
    ) -> None:
        self._folder = folder
        self._filters = filters
        self._writer = writer
        self._metas = metas
        self._values = values
        self._log = log
        self._lock = threading.Lock()
        self._calls: Counter[tuple[str, bool]] = Counter()
        self._written: Counter[str] = Counter()
        self._order = 0
        self.running: list[Place] = []
        """Modules that are running, outermost first."""
        self.step = -1

    def wants(self, op: str) -> bool:
        """Whether a call of ``op`` that happens now is to be recorded."""
        if not self._filters.wants_step(self.step) or not self._filters.wants(op, self.running):
            return False
        limit = self._filters.max_calls
        return limit == 0 or self._written[op] < limit

    def inputs(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """What to keep of the arguments, taken before an operator may change them."""
        given = [*args, kwargs] if kwargs else list(args)
        return describe(given), snapshot(given) if self._values else None

    def record(self, op: str, backend: str, flaggems: bool, inputs: tuple[Any, Any], output: Any) -> None:
        with self._lock:
            self._calls[op, flaggems] += 1
            self._written[op] += 1
            self._order += 1
            order, call = self._order, self._written[op]
        place = self.running[-1] if self.running else Place("", "")
        line = json.dumps(
            {
                "order": order,
                "step": self.step,
                "call": call,
                "op": op,
                "backend": backend,
                "module": place.kind,
                "layer": place.path,
                "inputs": inputs[0],
                "outputs": describe(output),
            }
        )
        if self._log:
            logger.info("%s", line)
        name = file_name(op)
        if self._metas:
            path = self._folder / f"{name}.jsonl"
            self._writer.submit(path, lambda: _append(path, line))
        if self._values:
            values = {"inputs": inputs[1], "outputs": snapshot(output)}
            target = self._folder / "values" / name / f"{call:06d}.pt"
            self._writer.submit(target, lambda: _save(target, values))

    def write_summary(self) -> None:
        """Calls recorded so far, by operator. An operator that both have run appears in both lists."""
        with self._lock:
            parts = {
                name: {
                    op: count for (op, flaggems), count in sorted(self._calls.items()) if flaggems is wanted
                }
                for name, wanted in (("flaggems", True), ("other", False))
            }
        summary = {
            "steps": self.step + 1,
            "flaggems_ops": len(parts["flaggems"]),
            "other_ops": len(parts["other"]),
            **parts,
        }
        path = self._folder / "summary.json"
        self._writer.submit(path, lambda: _replace(path, json.dumps(summary, indent=2)))


def file_name(op: str) -> str:
    """A name that stays in its folder, whatever an operator is called."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", op).lstrip(".") or "_"


def _append(path: Path, line: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(line + "\n")


def _save(path: Path, values: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(values, path)


def _replace(path: Path, text: str) -> None:
    part = path.with_suffix(".part")
    part.write_text(text + "\n", encoding="utf-8")
    os.replace(part, path)
