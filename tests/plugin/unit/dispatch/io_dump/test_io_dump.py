"""The record of operators: what it holds, what it leaves out, and that it never gets in the way."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from vllm_fl.dispatch import io_dump
from vllm_fl.dispatch.io_dump import IoDump
from vllm_fl.dispatch.io_dump.filters import Filters, Place
from vllm_fl.dispatch.io_dump.recorder import Recorder, file_name
from vllm_fl.dispatch.io_dump.writer import Writer
from vllm_fl.dispatch.manager import OpManager
from vllm_fl.dispatch.types import OpImpl
from vllm_fl.envs import Environment


class Scale(nn.Module):
    """A layer with a dispatched operator that works in place."""

    def __init__(self, manager: OpManager) -> None:
        super().__init__()
        self.scale = manager.bind("scale")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scale(self, x, factor=2)


class Block(nn.Module):
    def __init__(self, manager: OpManager) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4, bias=False)
        self.scale = Scale(manager)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scale(self.linear(x))


class Model(nn.Module):
    def __init__(self, manager: OpManager) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Block(manager) for _ in range(3)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.fixture
def manager() -> OpManager:
    manager = OpManager()
    manager.registry.register_impl(
        OpImpl("scale", "default.flagos", "flagos", lambda obj, x, factor: x.mul_(factor), may_mutate=True)
    )
    return manager


@pytest.fixture
def model(manager: OpManager) -> Model:
    torch.manual_seed(0)
    return Model(manager)


def started(model: Model, manager: OpManager, folder: Path, **options: Any) -> IoDump:
    dump = io_dump.attach(model, Environment(io_dump=str(folder)), 0, manager=manager, **options)
    assert dump is not None
    return dump


def lines(folder: Path, op: str) -> list[dict[str, Any]]:
    path = folder / "rank_0" / f"{op}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def summary(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "rank_0" / "summary.json").read_text())


def run(model: Model, steps: int = 1) -> None:
    with torch.inference_mode():
        for _ in range(steps):
            model(torch.ones(2, 4))


def test_off_nothing_is_hooked_and_no_module_of_it_is_imported(
    model: Model, manager: OpManager, tmp_path: Path
) -> None:
    function = manager.resolve("scale")
    assert io_dump.attach(model, Environment(), 0, manager=manager) is None
    assert (
        io_dump.attach(model, Environment(io_dump=str(tmp_path), io_dump_rank=(1,)), 0, manager=manager)
        is None
    )
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    assert manager.resolve("scale") is function
    assert list(tmp_path.iterdir()) == []
    code = "import sys, vllm_fl.dispatch; assert 'vllm_fl.dispatch.io_dump' not in sys.modules"
    subprocess.run(
        [sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(sys.path)}, timeout=60
    )


def test_each_call_is_a_line_with_step_place_and_statistics(
    model: Model, manager: OpManager, tmp_path: Path
) -> None:
    dump = started(model, manager, tmp_path)
    run(model, steps=2)
    dump.close()
    calls = lines(tmp_path, "scale")
    assert [(c["step"], c["layer"], c["module"], c["backend"]) for c in calls[:4]] == [
        (0, "layers.0.scale", "Scale", "default.flagos"),
        (0, "layers.1.scale", "Scale", "default.flagos"),
        (0, "layers.2.scale", "Scale", "default.flagos"),
        (1, "layers.0.scale", "Scale", "default.flagos"),
    ]
    first = calls[0]
    assert first["inputs"][0] == "Scale"
    assert first["inputs"][2] == {"factor": 2}
    tensor, result = first["inputs"][1], first["outputs"]
    assert (tensor["shape"], tensor["dtype"], tensor["device"]) == ([2, 4], "float32", "cpu")
    # The operator works in place, yet its input was described before it ran.
    assert result["norm"] == pytest.approx(2 * tensor["norm"])
    products = lines(tmp_path, "aten.mm")
    assert [c["layer"] for c in products[:3]] == [f"layers.{i}.linear" for i in range(3)]
    orders = [c["order"] for op in ("scale", "aten.mm") for c in lines(tmp_path, op)]
    assert len(set(orders)) == len(orders)


def test_results_are_those_of_a_run_without_record(model: Model, manager: OpManager, tmp_path: Path) -> None:
    x = torch.randn(2, 4)
    with torch.inference_mode():
        plain = model(x.clone())
        dump = started(model, manager, tmp_path, with_values=True)
        recorded = model(x.clone())
        dump.close()
        assert torch.equal(plain, recorded)
        assert torch.equal(plain, model(x.clone()))
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_B16_summary_splits_operators_by_whether_flaggems_ran_them(tmp_path: Path) -> None:
    writer = Writer(0)
    recorder = Recorder(tmp_path, Filters(), writer, metas=True, values=False, log=False)
    for _ in range(3):
        recorder.step += 1
        for op, flaggems in (("a", True), ("b", True), ("c", False), ("d", False), ("e", False)):
            recorder.record(op, "x", flaggems, ([], None), None)
    recorder.write_summary()
    read = json.loads((tmp_path / "summary.json").read_text())
    assert (read["flaggems_ops"], read["other_ops"], read["steps"]) == (2, 3, 3)
    assert read["flaggems"] == {"a": 3, "b": 3}
    assert read["other"] == {"c": 3, "d": 3, "e": 3}


def test_summary_of_a_run_counts_what_flaggems_registered(
    model: Model, manager: OpManager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class FlagGems:
        current_work_registrar = object()

        @staticmethod
        def all_registered_keys() -> list[str]:
            return ["mm", "add.Tensor"]

    monkeypatch.setitem(sys.modules, "flag_gems", FlagGems)
    dump = started(model, manager, tmp_path)
    run(model, steps=2)
    dump.close()
    read = summary(tmp_path)
    assert read["flaggems"] == {"aten.mm": 6, "scale": 6}
    assert read["other"]["aten.mul_"] == 6
    assert read["steps"] == 2


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"ops": ("scale",)}, {"scale": 9}),
        ({"ops": ("mm",)}, {"aten.mm": 9}),
        ({"ops": ("aten.mm",)}, {"aten.mm": 9}),
        ({"modules": ("Linear",), "ops": ("mm", "scale")}, {"aten.mm": 9}),
        ({"layers": ("1",), "ops": ("mm",)}, {"aten.mm": 3}),
        ({"layers": ("1-2",), "ops": ("mm",)}, {"aten.mm": 6}),
        ({"layers": ("layers.*.scale",), "ops": ("mm", "scale")}, {"scale": 9}),
        ({"step_range": (1, 1), "ops": ("mm",)}, {"aten.mm": 3}),
        ({"max_calls": 2, "ops": ("mm",)}, {"aten.mm": 2}),
        ({"with_torch_funcs": False}, {"scale": 9}),
    ],
)
def test_filters(
    options: dict[str, Any], expected: dict[str, int], model: Model, manager: OpManager, tmp_path: Path
) -> None:
    dump = started(model, manager, tmp_path, **options)
    run(model, steps=3)
    dump.close()
    written = {path.stem: len(lines(tmp_path, path.stem)) for path in (tmp_path / "rank_0").glob("*.jsonl")}
    assert written == expected


def test_layer_numbers_match_whole_parts_of_a_name_only() -> None:
    filters = Filters(layers=("1",))
    assert filters.wants("op", [Place("model.layers.1.mlp", "MLP")])
    assert not filters.wants("op", [Place("model.layers.11.mlp", "MLP")])
    assert not filters.wants("op", [])


def test_values_are_kept_as_they_were_at_the_call(model: Model, manager: OpManager, tmp_path: Path) -> None:
    dump = started(model, manager, tmp_path, with_values=True, with_metas=False, ops=("scale",))
    run(model)
    dump.close()
    saved = torch.load(tmp_path / "rank_0" / "values" / "scale" / "000001.pt", weights_only=True)
    assert torch.equal(saved["outputs"], saved["inputs"][1] * 2)
    assert lines(tmp_path, "scale") == []


def test_values_are_announced_as_user_data(
    model: Model, manager: OpManager, tmp_path: Path, caplog_vllm: pytest.LogCaptureFixture
) -> None:
    started(model, manager, tmp_path / "without").close()
    assert "user data" not in caplog_vllm.text
    started(model, manager, tmp_path / "with", with_values=True).close()
    assert caplog_vllm.text.count("user data") == 1


def test_the_folder_is_for_this_user_only_and_names_stay_inside(
    model: Model, manager: OpManager, tmp_path: Path
) -> None:
    (tmp_path / "dump" / "rank_0").mkdir(parents=True, mode=0o755)
    started(model, manager, tmp_path / "dump").close()
    assert (tmp_path / "dump" / "rank_0").stat().st_mode & 0o777 == 0o700
    for hostile in ("../../etc/passwd", "/abs", "..", "", "a\0b", "a/../b"):
        name = file_name(hostile)
        assert "/" not in name
        assert name not in ("", ".", "..")


def test_an_unusable_folder_is_an_error_before_the_first_request(
    model: Model, manager: OpManager, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        started(model, manager, tmp_path / "file")
    with pytest.raises(TypeError, match="io_dump_colour"):
        started(model, manager, tmp_path, colour="red")


def test_a_failure_to_record_is_reported_once_and_the_model_goes_on(
    model: Model,
    manager: OpManager,
    tmp_path: Path,
    caplog_vllm: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(self: Recorder, args: Any, kwargs: Any) -> Any:
        raise RuntimeError("cannot describe")

    monkeypatch.setattr(Recorder, "inputs", broken)
    dump = started(model, manager, tmp_path, ops=("scale",))
    run(model, steps=2)
    dump.close()
    warnings = [r for r in caplog_vllm.records if r.levelno == logging.WARNING]
    assert [r.getMessage() for r in warnings] == ["Calls of scale cannot be recorded"]


def test_an_error_of_the_model_passes_and_the_next_step_is_recorded_as_usual(
    model: Model, manager: OpManager, tmp_path: Path
) -> None:
    dump = started(model, manager, tmp_path, ops=("scale",))
    with pytest.raises(RuntimeError):
        model(torch.ones(2, 5))
    run(model)
    dump.close()
    assert [(c["step"], c["layer"]) for c in lines(tmp_path, "scale")] == [
        (1, f"layers.{i}.scale") for i in range(3)
    ]


def test_lines_of_a_file_keep_their_order_whatever_the_number_of_threads(tmp_path: Path) -> None:
    writer = Writer(4)
    written: dict[str, list[int]] = {name: [] for name in "abcdefgh"}
    for number in range(200):
        for name, seen in written.items():
            writer.submit(tmp_path / name, lambda seen=seen, number=number: seen.append(number))
    writer.close()
    assert all(seen == list(range(200)) for seen in written.values())
    writer.submit(tmp_path / "late", lambda: written["a"].append(-1))
    assert written["a"][-1] == -1
    assert not [
        t for t in threading.enumerate() if t.name.startswith("Thread-") and t.daemon and t.is_alive()
    ]


def test_a_file_that_cannot_be_written_does_not_stop_the_writer(
    tmp_path: Path, caplog_vllm: pytest.LogCaptureFixture
) -> None:
    writer, done = Writer(1), []

    def fail() -> None:
        raise OSError("disk full")

    writer.submit(tmp_path / "a", fail)
    writer.submit(tmp_path / "a", lambda: done.append(1))
    writer.close()
    assert done == [1]
    assert "disk full" in caplog_vllm.text


def test_numbers_that_are_not_finite_are_counted_apart() -> None:
    from vllm_fl.dispatch.io_dump.describe import describe

    facts = describe(torch.tensor([1.0, float("nan"), float("inf"), 3.0]))
    assert (facts["not_finite"], facts["min"], facts["max"], facts["mean"]) == (2, 1.0, 3.0, 2.0)
    assert "min" not in describe(torch.empty(0))
    assert describe(torch.tensor([True, False]))["mean"] == 0.5
