#!/usr/bin/env python3
"""What dispatching an operator costs: our bound call against a direct call of the same function.

Needs neither torch nor vLLM, nor the plugin installed. The last line of output is one JSON object:

    overhead_us             our call minus the direct call, in microseconds
    overhead_us_1000_ops    the same with 1000 operators registered instead of 10
    overhead_us_threads     the same while four threads call at once, per call
    direct_us, bound_us     the two calls themselves

A round times each kind in turn, for less than a millisecond, so that a busy machine slows all alike or hits
few rounds; the figure is the median of the differences within rounds.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "plugin"))

from vllm_fl.dispatch.manager import OpManager
from vllm_fl.dispatch.types import OpImpl

Call = Callable[[Any, Any], Any]


def function(obj: Any, x: Any) -> Any:
    """Stands for an operator that does nothing, so that only the way to it is measured."""
    return x


def bound_call(operators: int) -> Call:
    """An operator among ``operators``, each with three implementations."""
    manager = OpManager()
    kinds = (("flagos", "default.flagos", None), ("vendor", "vendor.cuda", "cuda"), ("reference", "r", None))
    manager.registry.register_many(
        OpImpl(f"op{number}", impl_id, kind, function, vendor=vendor)
        for number in range(operators)
        for kind, impl_id, vendor in kinds
    )
    calls = [manager.bind(f"op{number}") for number in range(operators)]
    for call in calls:
        call(None, 1)
    return calls[operators // 2]


def seconds(call: Call, count: int) -> float:
    started = time.perf_counter()
    for _ in range(count):
        call(None, 1)
    return time.perf_counter() - started


def compare(calls: Sequence[Call], rounds: int, count: int) -> list[list[float]]:
    """Microseconds per call: for every call a list of rounds, which time all of them in changing order."""
    times: list[list[float]] = [[] for _ in calls]
    order = list(range(len(calls)))
    for _ in range(rounds):
        order.append(order.pop(0))
        for position in order:
            times[position].append(seconds(calls[position], count) / count * 1e6)
    return times


def median_difference(times: Sequence[float], others: Sequence[float]) -> float:
    return statistics.median(a - b for a, b in zip(times, others, strict=True))


def compare_threads(call: Call, threads: int, rounds: int, count: int) -> float:
    """Difference per call while ``threads`` threads call at once, in microseconds.

    Python runs one thread at a time, so the wall-clock time of all is shared by all their calls.
    """

    def at_once(target: Call) -> float:
        barrier = threading.Barrier(threads + 1)

        def work() -> None:
            barrier.wait()
            seconds(target, count)

        workers = [threading.Thread(target=work) for _ in range(threads)]
        for worker in workers:
            worker.start()
        barrier.wait()
        started = time.perf_counter()
        for worker in workers:
            worker.join()
        return (time.perf_counter() - started) / (threads * count) * 1e6

    differences = []
    for number in range(rounds):
        first, second = (at_once(target) for target in ((function, call) if number % 2 else (call, function)))
        differences.append(second - first if number % 2 else first - second)
    return statistics.median(differences)


def measure(rounds: int, count: int) -> dict[str, float]:
    few, many = bound_call(10), bound_call(1000)
    gc.disable()
    direct, bound, among_many = compare((function, few, many), rounds, count)
    return {
        "overhead_us": median_difference(bound, direct),
        "overhead_us_1000_ops": median_difference(among_many, direct),
        "overhead_us_threads": compare_threads(few, 4, rounds // 20, count * 4),
        "direct_us": statistics.median(direct),
        "bound_us": statistics.median(bound),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print the JSON object only")
    parser.add_argument("--rounds", type=int, default=1001, help="rounds of each measurement")
    parser.add_argument("--count", type=int, default=500, help="calls per round")
    options = parser.parse_args()
    figures = {name: round(value, 4) for name, value in measure(options.rounds, options.count).items()}
    if not options.json:
        print(f"direct call           {figures['direct_us']:8.3f} us")
        print(f"bound call            {figures['bound_us']:8.3f} us")
        print(f"overhead              {figures['overhead_us']:8.3f} us   10 operators, 1 thread")
        print(f"overhead              {figures['overhead_us_1000_ops']:8.3f} us   1000 operators")
        print(f"overhead              {figures['overhead_us_threads']:8.3f} us   4 threads")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
