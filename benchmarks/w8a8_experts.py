"""W8A8 experts on an NVIDIA GPU: microseconds of the plugin's against vLLM's own INT8 fused experts.

Shapes are Qwen3-30B-A3B's: 128 experts, 8 per token, hidden size 2048, intermediate size 768, bfloat16
activations quantised per token, weights per output channel.

    python benchmarks/w8a8_experts.py --json
    python benchmarks/w8a8_experts.py --tune

The last line is one JSON object; ``ratio`` above one means the plugin's experts are the faster ones.
``--tune`` searches the tile sizes of vLLM's kernel instead and prints the best per number of tokens.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

EXPERTS, TOP_K, HIDDEN, INTERMEDIATE = 128, 8, 2048, 768
TOKENS = (1, 32, 512, 4096)
TUNED_TOKENS = (1, 8, 32, 128, 512, 1024, 4096)

Config = dict[str, int]


def inputs(tokens: int) -> dict[str, Any]:
    """Random arguments: x (tokens, HIDDEN) bfloat16, int8 weights with scales, routes without repetition."""
    import torch

    torch.manual_seed(tokens)
    cuda: dict[str, Any] = {"device": "cuda"}
    scores = torch.rand(tokens, EXPERTS, **cuda).softmax(-1)
    weights, ids = scores.topk(TOP_K)
    return {
        "x": torch.randn(tokens, HIDDEN, dtype=torch.bfloat16, **cuda),
        "w1": torch.randint(-127, 128, (EXPERTS, 2 * INTERMEDIATE, HIDDEN), dtype=torch.int8, **cuda),
        "w2": torch.randint(-127, 128, (EXPERTS, HIDDEN, INTERMEDIATE), dtype=torch.int8, **cuda),
        "w1_scale": torch.rand(EXPERTS, 2 * INTERMEDIATE, 1, **cuda) * 1e-3 + 1e-4,
        "w2_scale": torch.rand(EXPERTS, HIDDEN, 1, **cuda) * 1e-3 + 1e-4,
        "topk_weights": weights / weights.sum(-1, keepdim=True),
        "topk_ids": ids.int(),
    }


def vllm_experts(given: dict[str, Any], config: Config | None = None) -> Any:
    """vLLM's functional experts, with its own tile sizes or those of ``config``."""
    from vllm.model_executor.layers.fused_moe import override_config
    from vllm.model_executor.layers.fused_moe.config import int8_w8a8_moe_quant_config
    from vllm.model_executor.layers.fused_moe.fused_moe import fused_experts

    quantization = int8_w8a8_moe_quant_config(
        given["w1_scale"], given["w2_scale"], None, None, per_act_token_quant=True
    )
    with override_config(config):
        return fused_experts(
            given["x"],
            given["w1"],
            given["w2"],
            given["topk_weights"],
            given["topk_ids"],
            quant_config=quantization,
        )


def plugin_experts(given: dict[str, Any]) -> Any:
    """The plugin's."""
    from vllm_fl.quantization.w8a8.fused import fused_experts_int8

    return fused_experts_int8(**given)


def exact_experts(given: dict[str, Any]) -> Any:
    """The same in integers and float32: amax/127 per token, int32 sums, one rounding of the result."""
    import torch

    def quantize(x: Any) -> tuple[Any, Any]:
        scale = x.abs().amax(-1, keepdim=True).clamp(min=1e-10) / 127
        return (x / scale).round().clamp(-127, 127), scale

    out = torch.zeros(given["x"].shape, dtype=torch.float32, device="cuda")
    q, scale = quantize(given["x"].float())
    for expert in given["topk_ids"].unique().tolist():
        rows, slots = (given["topk_ids"] == expert).nonzero(as_tuple=True)
        # Products of 8-bit integers summed in float64 are exact, as int32 sums are.
        up = (q[rows].double() @ given["w1"][expert].double().T).float()
        gate, up = (up * scale[rows] * given["w1_scale"][expert].T).bfloat16().float().chunk(2, -1)
        hidden = (torch.nn.functional.silu(gate) * up).bfloat16().float()
        inner, inner_scale = quantize(hidden)
        down = (inner.double() @ given["w2"][expert].double().T).float()
        down = down * inner_scale * given["w2_scale"][expert].T
        out.index_add_(0, rows, down * given["topk_weights"][rows, slots, None])
    return out


def compare(tokens: int, rounds: int = 7) -> dict[str, Any]:
    """Microseconds of both, taking turns, and both errors relative to the largest exact value."""
    from benchmarks.flaggems_survey import device_time

    given = inputs(tokens)
    exact = exact_experts(given)
    sides = {"vllm": vllm_experts, "plugin": plugin_experts}
    row: dict[str, Any] = {"tokens": tokens}
    for name, side in sides.items():
        error = (side(given).float() - exact).abs().max() / exact.abs().max()
        row[f"{name}_error"] = round(float(error), 6)
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, side in sides.items():
            times[name].append(device_time(lambda side=side: side(given)))
    row |= {f"{name}_us": round(statistics.median(values), 1) for name, values in times.items()}
    row["ratio"] = round(row["vllm_us"] / row["plugin_us"], 3)
    return row


def candidates(tokens: int) -> Iterator[Config]:
    """Tile sizes worth a try: few rows per expert want small row tiles."""
    rows = {True: (16,), False: (16, 32, 64)}[tokens <= 128] if tokens <= 512 else (64, 128)
    groups = (1,) if tokens <= 512 else (1, 16)
    for m, n, k, warps, stages, group in itertools.product(
        rows, (64, 128, 256), (64, 128, 256), (4, 8), (3, 4, 5), groups
    ):
        if (m + n) * k * stages > 220_000 or (m * n >= 128 * 256 and warps == 4):
            continue
        yield {
            "BLOCK_SIZE_M": m,
            "BLOCK_SIZE_N": n,
            "BLOCK_SIZE_K": k,
            "GROUP_SIZE_M": group,
            "num_warps": warps,
            "num_stages": stages,
        }


def _compile(share: list[tuple[int, Config]]) -> None:
    for tokens, config in share:
        try:
            vllm_experts(inputs(tokens), config)
        except Exception:
            continue


def tune(tokens: tuple[int, ...], processes: int) -> dict[str, Any]:
    """The fastest candidate per number of tokens, with its microseconds and those of vLLM's own choice."""
    work = [(count, config) for count in tokens for config in candidates(count)]
    # Compiling is most of the time, and its results are shared through Triton's cache.
    context = multiprocessing.get_context("spawn")
    pool = [context.Process(target=_compile, args=(work[i::processes],)) for i in range(processes)]
    for process in pool:
        process.start()
    for process in pool:
        process.join()
    from benchmarks.flaggems_survey import device_time

    best: dict[str, Any] = {}
    for count in tokens:
        given = inputs(count)
        vllm_experts(given)
        default = device_time(lambda g=given: vllm_experts(g))
        timed = []
        for config in candidates(count):
            try:
                vllm_experts(given, config)
                timed.append((device_time(lambda g=given, c=config: vllm_experts(g, c), 5, 3), config))
            except Exception:
                continue
        timed.sort(key=lambda pair: pair[0])
        finalists = [
            (device_time(lambda g=given, c=config: vllm_experts(g, c)), config) for _, config in timed[:5]
        ]
        us, config = min(finalists, key=lambda pair: pair[0])
        best[str(count)] = {"us": round(us, 1), "vllm_us": round(default, 1), "config": config}
        print(count, best[str(count)], flush=True)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tune", action="store_true", help="search tile sizes")
    parser.add_argument("--tokens", nargs="+", type=int)
    parser.add_argument("--processes", type=int, default=12, help="that compile at once")
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")
    options = parser.parse_args()
    if options.tune:
        print(json.dumps(tune(tuple(options.tokens or TUNED_TOKENS), options.processes)))
        return
    import torch

    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "plugin"))
    rows = [compare(count) for count in options.tokens or TOKENS]
    for row in rows:
        print(row)
    if options.json:
        print(json.dumps({"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": rows}))


if __name__ == "__main__":
    main()
