"""Tokens per second of the reference device against ``generate`` of Hugging Face transformers.

Both run the same tiny Qwen3 with real random weights (12 layers of width 256) and the same batch of prompts,
greedily, in fp32, in this process, on the same number of threads. Prompts have different lengths, as requests
do; transformers pads them to the longest, an engine need not. They also differ between repetitions, so that
no cached prefix helps. Both sides take turns, and the best repetition of each counts. Run it where vLLM and
the plugin are installed:

    python benchmarks/reference_throughput.py --json

The last line is one JSON object; ``ratio`` above one means the reference device is the faster one.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.plugin.checkpoints import build, prompts
from tests.plugin.conftest import PLUGIN, write_metadata

Batch = list[list[int]]
PAD = 1


def transformers_generate(model: Path, new_tokens: int) -> Callable[[Batch], Batch]:
    """A function that generates ``new_tokens`` for each prompt with transformers and its cache."""
    import torch
    import transformers

    loaded = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()
    loaded.generation_config.eos_token_id = None

    @torch.inference_mode()
    def generate(batch: Batch) -> Batch:
        longest = max(map(len, batch))
        ids = torch.tensor([[PAD] * (longest - len(prompt)) + prompt for prompt in batch])
        out = loaded.generate(ids, attention_mask=ids != PAD, do_sample=False, max_new_tokens=new_tokens)
        return out[:, ids.shape[1] :].tolist()

    return generate


def engine_generate(model: Path, new_tokens: int, batch: int) -> Callable[[Batch], Batch]:
    """The same on vLLM with the plugin's reference device, engine and worker in this process."""
    os.environ.update(VLLM_ENABLE_V1_MULTIPROCESSING="0", VLLM_FL_PLATFORM="cpu", VLLM_PLUGINS="fl")
    from vllm import LLM, SamplingParams

    llm = LLM(
        str(model),
        enforce_eager=True,
        dtype="float32",
        max_model_len=1024,
        max_num_seqs=batch,
        kv_cache_memory_bytes=64 << 20,
        disable_log_stats=True,
    )
    sampling = SamplingParams(temperature=0, max_tokens=new_tokens, ignore_eos=True, detokenize=False)

    def generate(batch: Batch) -> Batch:
        requests = [{"prompt_token_ids": prompt} for prompt in batch]
        return [list(o.outputs[0].token_ids) for o in llm.generate(requests, sampling, use_tqdm=False)]

    return generate


def small_model(config: Any) -> None:
    """Deep enough for the layers to outweigh what is done once per step."""
    config.hidden_size, config.intermediate_size, config.num_hidden_layers = 256, 768, 12
    config.layer_types = ["full_attention"] * config.num_hidden_layers


def seconds(generate: Callable[[Batch], Batch], batch: Batch) -> float:
    start = time.perf_counter()
    generate(batch)
    return time.perf_counter() - start


def measure(batch: int, longest: int, new_tokens: int, repetitions: int) -> dict[str, Any]:
    """Build the model, time both sides and compare what they generated."""
    lengths = tuple(longest * (index + 1) // batch for index in range(batch))
    batches = [prompts(lengths, seed=seed) for seed in range(repetitions + 1)]
    with tempfile.TemporaryDirectory() as folder:
        model = build("qwen3", Path(folder), small_model)
        ours = engine_generate(model, new_tokens, batch)
        theirs = transformers_generate(model, new_tokens)
        same = ours(batches[0]) == theirs(batches[0])
        timed = [(seconds(ours, batch), seconds(theirs, batch)) for batch in batches[1:]]
        ours_seconds, theirs_seconds = map(min, zip(*timed, strict=True))
    import torch

    return {
        "batch": batch,
        "prompt_tokens": list(lengths),
        "new_tokens": new_tokens,
        "threads": torch.get_num_threads(),
        "same_tokens": same,
        "reference_tokens_per_second": round(batch * new_tokens / ours_seconds, 1),
        "transformers_tokens_per_second": round(batch * new_tokens / theirs_seconds, 1),
        "ratio": round(theirs_seconds / ours_seconds, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--longest-prompt", type=int, default=512)
    parser.add_argument("--new-tokens", type=int, default=64)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="vllm-plugin-fl-") as metadata:
        # The tree, not an installed wheel, is what is measured; vLLM finds it by metadata.
        write_metadata(Path(metadata))
        sys.path[:0] = [str(PLUGIN), metadata]
        result = measure(options.batch, options.longest_prompt, options.new_tokens, options.repetitions)
    if options.json:
        print(json.dumps(result))
        return
    for name, value in result.items():
        print(f"{name}: {value}")


if __name__ == "__main__":
    main()
