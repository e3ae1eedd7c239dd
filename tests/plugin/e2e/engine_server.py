"""Runs vLLM engines for the tests: one process for many checks, because importing vLLM takes seconds.

Reads one JSON job per line from standard input and answers each with one line that starts with MARK. A job is
``{"engine": {LLM arguments}, "batches": [[request, ...], ...]}`` with requests ``{"prompt": [ids] | text,
"sampling": {...}}``; the engine stays up for the next job with the same arguments. The answer is
``{"batches": ...}``, without batches ``{"models": [printed model of each worker]}``, or
``{"error": traceback}``.
"""

from __future__ import annotations

import gc
import json
import sys
import traceback
from typing import Any

MARK = "\x1eanswer "


class EngineServer:
    def __init__(self) -> None:
        self._arguments: dict[str, Any] | None = None
        self._llm: Any = None

    def _engine(self, arguments: dict[str, Any]) -> Any:
        if arguments == self._arguments:
            return self._llm
        from vllm import LLM
        from vllm.distributed import cleanup_dist_env_and_memory

        if self._llm is not None:
            self._arguments = self._llm = None
            gc.collect()
            cleanup_dist_env_and_memory()
        self._llm = LLM(**arguments)
        self._arguments = arguments
        return self._llm

    def answer(self, job: dict[str, Any]) -> dict[str, Any]:
        try:
            llm = self._engine(job["engine"])
            batches = [self._generate(llm, batch) for batch in job["batches"]]
            return {"batches": batches} if batches else {"models": llm.apply_model(repr)}
        except Exception:
            return {"error": traceback.format_exc()}

    def _generate(self, llm: Any, batch: list[dict[str, Any]]) -> list[dict[str, Any]]:
        from vllm import SamplingParams
        from vllm.sampling_params import StructuredOutputsParams

        prompts, sampling = [], []
        for request in batch:
            prompt, options = request["prompt"], dict(request["sampling"])
            if "regex" in options:
                options["structured_outputs"] = StructuredOutputsParams(regex=options.pop("regex"))
            prompts.append(prompt if isinstance(prompt, str) else {"prompt_token_ids": prompt})
            sampling.append(SamplingParams(**options))
        return [
            {
                "tokens": [list(completion.token_ids) for completion in output.outputs],
                "text": [completion.text for completion in output.outputs],
                "cached": output.num_cached_tokens,
                "logprobs": [
                    {str(token): value.logprob for token, value in step.items()}
                    for step in output.outputs[0].logprobs or ()
                ],
            }
            for output in llm.generate(prompts, sampling, use_tqdm=False)
        ]


def main() -> None:
    server = EngineServer()
    for line in sys.stdin:
        sys.stdout.write(MARK + json.dumps(server.answer(json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
