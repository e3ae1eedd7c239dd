"""Tokens per second on an NVIDIA GPU: the plugin's policies against plain vLLM, eager and with CUDA graphs.

Each variant runs in a process of its own, one after the other, on the same checkpoint of real random
bfloat16 weights (Qwen3-0.6B's shapes, or a Qwen3 mixture of experts). ``--again`` runs plain vLLM once more
at the end, so that the drift of the machine shows. Run it where vLLM is installed; the plugin is this tree's:

    python benchmarks/nvidia_serving.py --json

The last line is one JSON object. ``variants`` holds, per variant, tokens per second for every batch size,
the ratio to plain vLLM in the same mode, whether greedy tokens equal plain vLLM's, and the largest difference
of a prompt token's log-probability. ``--empty-site`` names a folder with empty-device vLLM for its variants.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.plugin.conftest import PLUGIN, write_metadata

BATCHES = (1, 64, 256)
PROMPT_TOKENS = 32
NEW_TOKENS = 128
COMPARED_PROMPTS = 8

MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "qwen3-0.6b": (
        "Qwen3Config",
        "Qwen3ForCausalLM",
        {
            "hidden_size": 1024,
            "intermediate_size": 3072,
            "num_hidden_layers": 28,
            "tie_word_embeddings": True,
        },
    ),
    "qwen3-moe": (
        "Qwen3MoeConfig",
        "Qwen3MoeForCausalLM",
        {
            "hidden_size": 1024,
            "intermediate_size": 3072,
            "num_hidden_layers": 8,
            "num_experts": 64,
            "num_experts_per_tok": 8,
            "moe_intermediate_size": 512,
            "norm_topk_prob": True,
            "tie_word_embeddings": True,
        },
    ),
}
"""Name to configuration class, model class, and what differs from COMMON."""

COMMON = {
    "vocab_size": 151936,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 4096,
    "bos_token_id": None,
    "eos_token_id": 0,
    "pad_token_id": 1,
}


@dataclass(frozen=True)
class Variant:
    """One way to serve: ``name`` is ``WHO-MODE`` with mode ``eager`` or ``graphs``."""

    name: str
    environ: dict[str, str] = field(default_factory=dict)
    empty: bool = False

    @property
    def mode(self) -> str:
        return self.name.partition("-")[2].split("-")[0]

    @property
    def listed(self) -> bool:
        """Whether the lists of FlagGems functions matter to it."""
        return self.name.startswith(("flagos", "empty"))

    @property
    def plain(self) -> str:
        return f"plain-{self.mode}"


FORCED = ("silu_and_mul", "rms_norm", "rotary_embedding")


def _variants() -> dict[str, Variant]:
    plugin = {"VLLM_PLUGINS": "fl", "VLLM_FL_PLATFORM": "nvidia"}
    found = []
    for mode in ("eager", "graphs"):
        found += [
            Variant(f"plain-{mode}", {"VLLM_PLUGINS": ""}),
            Variant(f"vendor-{mode}", {**plugin, "VLLM_FL_PREFER": "vendor"}),
            Variant(f"flagos-{mode}", {**plugin, "VLLM_FL_PREFER": "flagos"}),
            Variant(f"reference-{mode}", {**plugin, "VLLM_FL_PREFER": "reference"}),
            Variant(
                f"vendor-{mode}-v1", {**plugin, "VLLM_FL_PREFER": "vendor", "VLLM_USE_V2_MODEL_RUNNER": "0"}
            ),
            Variant(
                f"flagos-{mode}-v1", {**plugin, "VLLM_FL_PREFER": "flagos", "VLLM_USE_V2_MODEL_RUNNER": "0"}
            ),
            Variant(f"plain-{mode}-v1", {"VLLM_PLUGINS": "", "VLLM_USE_V2_MODEL_RUNNER": "0"}),
            Variant(f"empty-{mode}", {**plugin, "VLLM_FL_PREFER": "flagos"}, empty=True),
            # Whatever the shipped lists say about them: shows that captured graphs hold these operators.
            Variant(
                f"forced-{mode}",
                {
                    **plugin,
                    "VLLM_FL_PER_OP": ";".join(f"{name}=flagos" for name in FORCED),
                    "VLLM_FL_FLAGOS_WHITELIST": ",".join(
                        (*FORCED, "fused_add_rms_norm", "apply_rotary_pos_emb")
                    ),
                },
            ),
        ]
    return {variant.name: variant for variant in found}


VARIANTS = _variants()
STANDARD = ("plain-eager", "vendor-eager", "flagos-eager", "plain-graphs", "vendor-graphs", "flagos-graphs")


def build_model(name: str, folder: Path) -> Path:
    """Write the checkpoint ``name`` into ``folder``: weights of standard deviation 0.02, norms of one."""
    import torch
    import transformers

    config_class, model_class, changes = MODELS[name]
    config = getattr(transformers, config_class)(**{**COMMON, **changes})
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = getattr(transformers, model_class)(config)
    torch.set_default_dtype(torch.float32)
    model.save_pretrained(folder)
    return folder


def prompts(count: int, length: int, seed: int) -> list[dict[str, list[int]]]:
    """Random requests."""
    draw = random.Random(seed)
    return [{"prompt_token_ids": [draw.randrange(2, 150000) for _ in range(length)]} for _ in range(count)]


def serve(model: str, mode: str, batches: Sequence[int], rounds: int) -> dict[str, Any]:
    """What one variant's process measures."""
    started = time.perf_counter()
    import vllm
    from vllm import LLM, SamplingParams

    engine = LLM(
        model,
        dtype="bfloat16",
        skip_tokenizer_init=True,
        max_model_len=1024,
        max_num_seqs=max(batches),
        gpu_memory_utilization=0.4,
        enforce_eager=mode == "eager",
        enable_prefix_caching=False,
        disable_log_stats=True,
        compilation_config={"cudagraph_capture_sizes": sorted({1, 2, 4, 8, *batches})},
    )
    ready = time.perf_counter() - started
    greedy = {"temperature": 0, "ignore_eos": True, "detokenize": False}
    compared = engine.generate(
        prompts(COMPARED_PROMPTS, 48, seed=1),
        SamplingParams(max_tokens=64, prompt_logprobs=0, **greedy),
        use_tqdm=False,
    )
    speeds = {}
    for batch in batches:
        sampling = SamplingParams(max_tokens=NEW_TOKENS, **greedy)
        times = []
        for number in range(rounds + 1):
            requests = prompts(batch, PROMPT_TOKENS, seed=100 + number)
            before = time.perf_counter()
            engine.generate(requests, sampling, use_tqdm=False)
            times.append(time.perf_counter() - before)
        speeds[str(batch)] = [round(batch * NEW_TOKENS / seconds, 1) for seconds in times[1:]]
    return {
        "vllm": vllm.__version__,
        "runner": type(_runner(engine)).__name__,
        "ready_s": round(ready, 1),
        "tokens_per_second": speeds,
        "tokens": [list(output.outputs[0].token_ids) for output in compared],
        "logprobs": [
            next(iter(step.values())).logprob
            for output in compared
            for step in output.prompt_logprobs or ()
            if step
        ],
    }


def _runner(engine: Any) -> Any:
    return engine.llm_engine.model_executor.driver_worker.worker.model_runner


def run(variant: Variant, model: Path, options: argparse.Namespace, metadata: Path) -> dict[str, Any]:
    """Start the process of a variant and give back what it measured, or ``error``."""
    path = [str(PLUGIN), str(metadata), *filter(None, [os.environ.get("PYTHONPATH")])]
    if variant.empty:
        path.insert(0, str(options.empty_site))
    environ = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path),
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_USE_FLASHINFER_SAMPLER": "0",
        "HF_HUB_OFFLINE": "1",
        **({"VLLM_FL_FLAGOS_BLACKLIST": options.blacklist} if options.blacklist and variant.listed else {}),
        **variant.environ,
    }
    with tempfile.NamedTemporaryFile("r", suffix=".json") as answer:
        command = [
            sys.executable,
            __file__,
            "--serve",
            str(model),
            "--mode",
            variant.mode,
            "--answer",
            answer.name,
        ]
        command += ["--rounds", str(options.rounds), "--batches", *map(str, options.batches)]
        with (options.logs / f"{variant.name}.log").open("w") as log:
            code = subprocess.run(
                command, env=environ, stdout=log, stderr=subprocess.STDOUT, check=False
            ).returncode
        if code:
            tail = (options.logs / f"{variant.name}.log").read_text(errors="replace").splitlines()[-12:]
            return {"error": f"exit {code}", "log": tail}
        return json.load(answer)


def compare(found: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Ratios and differences of every variant to plain vLLM in the same mode."""
    compared = {}
    for name, result in found.items():
        if "error" in result:
            compared[name] = result
            continue
        variant = VARIANTS[name.removesuffix("-again")]
        plain = found.get(variant.plain, {})
        row = {key: result[key] for key in ("vllm", "runner", "ready_s", "tokens_per_second")}
        if "error" not in plain and plain:
            row["ratio"] = {
                batch: round(
                    statistics.median(speeds) / statistics.median(plain["tokens_per_second"][batch]), 4
                )
                for batch, speeds in result["tokens_per_second"].items()
            }
            row["same_tokens"] = result["tokens"] == plain["tokens"]
            row["first_difference"] = first_difference(result["tokens"], plain["tokens"])
            row["logprob_difference"] = round(
                max(abs(a - b) for a, b in zip(result["logprobs"], plain["logprobs"], strict=True)), 5
            )
        compared[name] = row
    return compared


def first_difference(ours: list[list[int]], theirs: list[list[int]]) -> int | None:
    """The earliest generated position at which any request differs; None: nowhere."""
    positions = (
        index
        for one, other in zip(ours, theirs, strict=True)
        for index, (a, b) in enumerate(zip(one, other, strict=True))
        if a != b
    )
    return min(positions, default=None)


def table(rows: dict[str, dict[str, Any]]) -> Iterable[str]:
    yield f"{'variant':24}{'batch':>7}{'tokens/s':>12}{'ratio':>9}{'same':>7}{'logprob':>10}"
    for name, row in rows.items():
        if "error" in row:
            yield f"{name:24} {row['error']}: {' | '.join(row['log'][-2:])}"
            continue
        for batch, speeds in row["tokens_per_second"].items():
            ratio = row.get("ratio", {}).get(batch, "")
            same, off = row.get("same_tokens", ""), row.get("logprob_difference", "")
            yield f"{name:24}{batch:>7}{statistics.median(speeds):>12.1f}{ratio:>9}{same!s:>7}{off:>10}"


def measure(options: argparse.Namespace) -> dict[str, Any]:
    import torch

    wanted = [VARIANTS[name] for name in options.variants]
    with tempfile.TemporaryDirectory() as scratch:
        metadata = Path(scratch) / "metadata"
        metadata.mkdir()
        write_metadata(metadata)
        model = build_model(options.model, Path(scratch) / "model")
        found = {}
        for variant in wanted:
            found[variant.name] = run(variant, model, options, metadata)
            print(
                f"{variant.name}: {found[variant.name].get('tokens_per_second', 'failed')}", file=sys.stderr
            )
        if options.again:
            for plain in dict.fromkeys(variant.plain for variant in wanted):
                found[f"{plain}-again"] = run(VARIANTS[plain], model, options, metadata)
    return {
        "model": options.model,
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "prompt_tokens": PROMPT_TOKENS,
        "new_tokens": NEW_TOKENS,
        "variants": compare(found),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", choices=MODELS, default="qwen3-0.6b")
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(STANDARD))
    parser.add_argument("--batches", nargs="+", type=int, default=list(BATCHES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--again", action="store_true", help="run plain vLLM once more at the end")
    parser.add_argument("--blacklist", default="", help="FlagGems functions that policy flagos leaves out")
    parser.add_argument("--empty-site", type=Path, help="a folder that holds empty-device vLLM")
    parser.add_argument("--logs", type=Path, default=Path(tempfile.gettempdir()), help="where the logs go")
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--mode", help=argparse.SUPPRESS)
    parser.add_argument("--answer", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        options.answer.write_text(
            json.dumps(serve(options.serve, options.mode, options.batches, options.rounds))
        )
        return
    result = measure(options)
    print("\n".join(table(result["variants"])))
    if options.json:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
