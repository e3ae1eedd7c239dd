"""Which FlagGems functions are right and fast on this GPU: each against torch's own operator, per shape.

First a small Qwen3 is served by plain vLLM, eagerly, and every call of an operator that FlagGems would take
over is recorded: its shapes, strides, dtypes and the range of its integers. Then each recorded call is made
with fresh random values by torch and by FlagGems, and both are compared with the same call in float64.

    python benchmarks/flaggems_survey.py --json

The last line is one JSON object; ``cases`` has a row per operator and shape: relative errors, microseconds on
the device (replayed from a CUDA graph) and per call as the host sees it, and a verdict. ``verdicts`` has the
worst verdict per function, which is what a list of functions to leave out is made from.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

SLOWER = 1.10
"""How much longer FlagGems may take than torch."""
FIRST_CALL = 0.8
"""Seconds that the first call of a shape may take, once the function has run for another one."""
CASES_PER_OPERATOR = 6
RANDOM = ("exponential", "uniform", "normal", "rand", "multinomial", "bernoulli")


def functions() -> dict[str, Callable[..., Any]]:
    """FlagGems' functions by the name of the operator they take over, such as ``mm.out``."""
    import flag_gems

    return {entry[0]: entry[1] for entry in flag_gems._FULL_CONFIG}


def describe(value: Any) -> Any:
    """An argument as JSON. Raises TypeError for what cannot be made again."""
    import torch

    if isinstance(value, torch.Tensor):
        described = {
            "shape": list(value.shape),
            "stride": list(value.stride()),
            "dtype": str(value.dtype)[6:],
        }
        if not value.is_floating_point() and value.dtype != torch.bool and value.numel():
            described["range"] = [int(value.min()), int(value.max())]
        if value.device.type == "cpu":
            described["cpu"] = True
        return {"tensor": described}
    if isinstance(value, (list, tuple)):
        return {"list": [describe(item) for item in value]}
    if isinstance(value, torch.dtype):
        return {"dtype": str(value)[6:]}
    if isinstance(value, torch.device):
        return {"device": str(value)}
    if isinstance(value, (torch.layout, torch.memory_format)):
        return {"torch": str(value)[6:]}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(type(value).__name__)


def make(described: Any) -> Any:
    """A fresh argument of that description; tensors get random values."""
    import torch

    if not isinstance(described, dict):
        return described
    ((kind, content),) = described.items()
    if kind == "list":
        return [make(item) for item in content]
    if kind == "dtype" or kind == "torch":
        return getattr(torch, content)
    if kind == "device":
        return torch.device(content)
    dtype, device = getattr(torch, content["dtype"]), "cpu" if content.get("cpu") else "cuda"
    shape, stride = content["shape"], content["stride"]
    room = 1 + sum((size - 1) * step for size, step in zip(shape, stride, strict=True) if size)
    if dtype.is_floating_point:
        flat = torch.randn(room, device=device).to(dtype)
    elif dtype == torch.bool:
        flat = torch.rand(room, device=device) > 0.5
    else:
        low, high = content.get("range", (0, 0))
        flat = torch.randint(low, high + 1, (room,), device=device).to(dtype)
    return flat.as_strided(shape, stride)


def record(model: Path) -> list[dict[str, Any]]:
    """Serve a model eagerly with plain vLLM and note the calls that FlagGems would take over."""
    os.environ.update(VLLM_ENABLE_V1_MULTIPROCESSING="0", VLLM_PLUGINS="", VLLM_USE_FLASHINFER_SAMPLER="0")
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves
    from vllm import LLM, SamplingParams

    seen: dict[str, dict[str, Any]] = {}

    class Recorder(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            name = func.name().removeprefix("aten::")
            tensors = [v for v in tree_leaves((args, kwargs)) if isinstance(v, torch.Tensor)]
            if func.namespace == "aten" and name in wanted and any(tensor.is_cuda for tensor in tensors):
                try:
                    case = {
                        "operator": name,
                        "args": [describe(arg) for arg in args],
                        "kwargs": {key: describe(value) for key, value in (kwargs or {}).items()},
                    }
                    seen.setdefault(json.dumps(case), case)
                except TypeError:
                    pass
            elif func._can_decompose():
                # A layer calls `linear`, say; what FlagGems would take over is the `mm` in it.
                with self:
                    found = func.decompose(*args, **(kwargs or {}))
                if found is not NotImplemented:
                    return found
            return func(*args, **(kwargs or {}))

    engine = LLM(
        str(model),
        dtype="bfloat16",
        skip_tokenizer_init=True,
        max_model_len=1024,
        max_num_seqs=256,
        gpu_memory_utilization=0.3,
        enforce_eager=True,
        disable_log_stats=True,
    )
    # Not earlier: FlagGems declares some of vLLM's operators, and vLLM's own library must be loaded first.
    wanted = functions()
    from benchmarks.nvidia_serving import prompts

    plain = {"max_tokens": 4, "ignore_eos": True, "detokenize": False}
    samplings = (
        SamplingParams(temperature=0, **plain),
        SamplingParams(temperature=0.8, top_p=0.9, top_k=20, min_p=0.02, seed=1, logprobs=2, **plain),
        SamplingParams(temperature=1.0, presence_penalty=0.3, repetition_penalty=1.1, **plain),
    )
    with Recorder():
        for sampling in samplings:
            for count, length in ((1, 128), (64, 32), (256, 16)):
                engine.generate(prompts(count, length, seed=count), sampling, use_tqdm=False)
    return list(seen.values())


def chosen(cases: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """At most CASES_PER_OPERATOR per operator, spread over the sizes of what they were called with."""

    def size(case: dict[str, Any]) -> int:
        shapes = [a["tensor"]["shape"] for a in case["args"] if isinstance(a, dict) and "tensor" in a]
        total = 0
        for shape in shapes:
            numel = 1
            for extent in shape:
                numel *= extent
            total += numel
        return total

    by_operator: dict[str, list[dict[str, Any]]] = {}
    for case in cases:
        by_operator.setdefault(case["operator"], []).append(case)
    for group in by_operator.values():
        group.sort(key=size)
        last = len(group) - 1
        picked = {round(last * i / (CASES_PER_OPERATOR - 1)) for i in range(CASES_PER_OPERATOR)}
        yield from (group[index] for index in sorted(picked))


def survey(case: dict[str, Any], ours: Callable[..., Any], *, compiled: bool) -> dict[str, Any]:
    """One row: both implementations on the same random arguments.

    Args:
        compiled: whether the function has run for another shape already.
    """
    import torch
    from torch.utils._pytree import tree_map

    base, _, overload = case["operator"].partition(".")
    native = getattr(getattr(torch.ops.aten, base), overload or "default")
    args, kwargs = [make(arg) for arg in case["args"]], {k: make(v) for k, v in case["kwargs"].items()}
    row: dict[str, Any] = {**case, "function": ours.__name__}

    def fresh(convert: Callable[[Any], Any] = lambda t: t.clone()) -> tuple[Any, Any]:
        return tree_map(lambda v: convert(v) if isinstance(v, torch.Tensor) else v, (args, kwargs))

    def outcome(function: Callable[..., Any], arguments: tuple[Any, Any]) -> list[torch.Tensor]:
        result = function(*arguments[0], **arguments[1])
        found = result if isinstance(result, (list, tuple)) else [result]
        return [item for item in found if isinstance(item, torch.Tensor)]

    expected = outcome(native, fresh())
    started = time.perf_counter()
    try:
        found = outcome(ours, fresh())
        torch.cuda.synchronize()
    except Exception as error:
        return {**row, "verdict": "fails", "why": f"{type(error).__name__}: {error}"[:200]}
    row["first_call_s"] = round(time.perf_counter() - started, 2)
    if not base.startswith(RANDOM):
        precise = fresh(lambda t: t.double() if t.is_floating_point() else t.clone())
        try:
            exact = outcome(native, precise)
        except Exception:
            exact = expected
        row["error_torch"], row["error_flaggems"] = error_of(expected, exact), error_of(found, exact)
        if [t.shape for t in found] != [t.shape for t in expected] or [t.dtype for t in found] != [
            t.dtype for t in expected
        ]:
            return {**row, "verdict": "fails", "why": "another shape or dtype"}
        if not row["error_flaggems"] <= 2 * row["error_torch"] + 1e-6 or not names_its_values(found, args):
            return {**row, "verdict": "wrong"}
    row.update(timed(native, ours, fresh()))
    # A tuner that runs anew for every shape stops a server for as long, in the middle of its work.
    if compiled and row["first_call_s"] > FIRST_CALL:
        return {**row, "verdict": "late"}
    slower = row["device_us_flaggems"] > SLOWER * row["device_us_torch"] + 0.3
    return {**row, "verdict": "slower" if slower else "ok"}


def names_its_values(found: list[Any], args: list[Any]) -> bool:
    """Whether the indices beside the values of a sort or a choice say where the values are.

    Among equal values any index is right, so indices are not compared with torch's.
    """
    if len(found) != 2 or found[1].is_floating_point() or found[0].shape != found[1].shape:
        return True
    return bool((args[0].gather(-1, found[1]) == found[0]).all())


def error_of(found: list[Any], exact: list[Any]) -> float:
    """Largest ``|found - exact| / |exact|`` (Frobenius norms) over the outputs; NaN counts as infinite."""
    worst = 0.0
    for one, other in zip(found, exact, strict=False):
        if not one.is_floating_point():
            if len(found) == 1:
                worst = max(worst, float((one != other).double().mean()))
            continue
        a, b = one.double().nan_to_num(posinf=1e30, neginf=-1e30), other.double()
        b = b.nan_to_num(posinf=1e30, neginf=-1e30)
        norm = float(b.norm())
        error = float((a - b).norm()) / norm if norm else float((a - b).norm())
        worst = max(worst, error if error == error else float("inf"))
    return worst


def timed(native: Callable[..., Any], ours: Callable[..., Any], arguments: Any) -> dict[str, float]:
    """Medians in microseconds, the two taking turns."""
    import torch

    args, kwargs = arguments
    times: dict[str, list[float]] = {}
    for _ in range(3):
        for who, function in (("torch", native), ("flaggems", ours)):
            times.setdefault(f"device_us_{who}", []).append(
                device_time(lambda f=function: f(*args, **kwargs))
            )
            torch.cuda.synchronize()
            started = time.perf_counter()
            for _ in range(50):
                function(*args, **kwargs)
            times.setdefault(f"host_us_{who}", []).append((time.perf_counter() - started) / 50 * 1e6)
            torch.cuda.synchronize()
    return {name: round(statistics.median(values), 2) for name, values in times.items()}


def device_time(call: Callable[[], Any], calls: int = 20, replays: int = 5) -> float:
    """Microseconds per call, from replays of a graph of calls; from events where it cannot be captured."""
    import torch

    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            for _ in range(calls):
                call()
        repeat: Callable[[], Any] = graph.replay
    except Exception:
        torch.cuda.synchronize()

        def repeat() -> None:
            for _ in range(calls):
                call()

    repeat()
    start.record()
    for _ in range(replays):
        repeat()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / (calls * replays) * 1e3


ORDER = ("ok", "slower", "late", "wrong", "fails")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", default="qwen3-0.6b", help="a model of benchmarks/nvidia_serving.py")
    parser.add_argument("--seconds", type=float, default=300, help="stop after so long")
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")
    options = parser.parse_args()
    from benchmarks.nvidia_serving import build_model

    with tempfile.TemporaryDirectory() as scratch:
        recorded = record(build_model(options.model, Path(scratch)))
    import flag_gems
    import torch

    ours, rows, left, ran = functions(), [], 0, set()
    deadline = time.monotonic() + options.seconds
    for case in chosen(recorded):
        if time.monotonic() > deadline:
            left += 1
            continue
        with torch.inference_mode():
            function = ours[case["operator"]]
            rows.append(survey(case, function, compiled=function in ran))
            ran.add(function)
    verdicts: dict[str, str] = {}
    for row in rows:
        worst = max(verdicts.get(row["function"], "ok"), row["verdict"], key=ORDER.index)
        verdicts[row["function"]] = worst
        shapes = [a["tensor"]["shape"] for a in row["args"] if isinstance(a, dict) and "tensor" in a]
        figures = [row.get(key, "") for key in ("device_us_torch", "device_us_flaggems", "host_us_flaggems")]
        print(f"{row['operator']:32}{row['verdict']:8}{figures!s:32}{shapes} {row.get('why', '')}")
    result = {
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "flag_gems": flag_gems.__version__,
        "verdicts": dict(sorted(verdicts.items())),
        "not_surveyed": left,
        "cases": rows,
    }
    if options.json:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
