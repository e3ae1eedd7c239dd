"""Engines for end-to-end tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.plugin.checkpoints import NEW_TOKENS, Reference, references
from tests.plugin.e2e import engine_server


class Engines:
    """Client of one engine_server process, which is started on first use and again after it died."""

    def __init__(self, environment: dict[str, str], log: Path) -> None:
        self._environment, self._log = environment, log
        self._process: subprocess.Popen[str] | None = None

    def ask(self, engine: dict[str, Any], *batches: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
        """Run the batches one after the other on an engine with these arguments."""
        answer = self._exchange({"engine": engine, "batches": batches})
        if "error" in answer:
            pytest.fail(f"{answer['error']}\nlog: {self._log}", pytrace=False)
        return answer["batches"]

    def models(self, engine: dict[str, Any]) -> list[str]:
        """The model of each worker as torch prints it, with the class of every layer."""
        answer = self._exchange({"engine": engine, "batches": []})
        if "error" in answer:
            pytest.fail(f"{answer['error']}\nlog: {self._log}", pytrace=False)
        return answer["models"]

    def refusal(self, engine: dict[str, Any]) -> str:
        """The traceback of an engine that must not start."""
        answer = self._exchange({"engine": engine, "batches": []})
        assert "error" in answer, "the engine started"
        return answer["error"]

    def greedy(self, engine: dict[str, Any], expected: list[Reference], runs: int = 1) -> list[list[int]]:
        """Check ``runs`` greedy generations of all prompts as one batch; returns cached tokens per run."""
        sampling = {"temperature": 0, "max_tokens": NEW_TOKENS, "ignore_eos": True}
        batch = [{"prompt": list(reference.prompt), "sampling": sampling} for reference in expected]
        cached = []
        for outputs in self.ask(engine, *[batch] * runs):
            assert [output["tokens"][0] for output in outputs] == [list(r.generated) for r in expected]
            cached.append([output["cached"] for output in outputs])
        return cached

    def _exchange(self, job: dict[str, Any]) -> dict[str, Any]:
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(job) + "\n")
        process.stdin.flush()
        with self._log.open("a") as log:
            for line in process.stdout:
                if line.startswith(engine_server.MARK):
                    return json.loads(line.removeprefix(engine_server.MARK))
                log.write(line)
        pytest.fail(f"the engine process died: {self._log.read_text()[-4000:]}", pytrace=False)

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, engine_server.__file__],
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        return self._process

    def close(self) -> None:
        if self._process is not None:
            self._process.communicate(timeout=60)


@pytest.fixture(scope="session")
def start_engines(
    plugin_environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., Engines]]:
    """Make an Engines client whose process has these further environment variables."""
    with ExitStack() as stack:

        def start(name: str, **variables: str) -> Engines:
            log = tmp_path_factory.mktemp("engines") / f"{name}.log"
            engines = Engines({**plugin_environment, **variables}, log)
            stack.callback(engines.close)
            return engines

        yield start


@pytest.fixture(scope="session")
def engines(
    start_engines: Callable[..., Engines],
    plugin_environment: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Engines:
    """First model runner, engine and worker inside one process, with neither Triton nor a compiler."""
    blocked = tmp_path_factory.mktemp("without_triton")
    (blocked / "triton.py").write_text("raise ImportError('this process must do without Triton')\n")
    return start_engines(
        "v1",
        VLLM_ENABLE_V1_MULTIPROCESSING="0",
        PYTHONPATH=f"{blocked}{os.pathsep}{plugin_environment['PYTHONPATH']}",
        PATH=str(blocked),
        CC="/nonexistent/cc",
        CXX="/nonexistent/c++",
    )


@pytest.fixture(scope="session")
def v2_engines(start_engines: Callable[..., Engines]) -> Engines:
    """Second model runner, its Triton kernels interpreted."""
    return start_engines(
        "v2",
        VLLM_ENABLE_V1_MULTIPROCESSING="0",
        VLLM_USE_V2_MODEL_RUNNER="1",
        TRITON_INTERPRET="1",
        CUDA_VISIBLE_DEVICES="",
    )


@pytest.fixture(scope="session")
def parallel_engines(start_engines: Callable[..., Engines]) -> Engines:
    """Several workers, each in a process of its own."""
    return start_engines("parallel", VLLM_ALLOW_INSECURE_SERIALIZATION="1")


@pytest.fixture(scope="session")
def expected(checkpoint: Callable[[str], Path]) -> Callable[[str], list[Reference]]:
    """What transformers generates for every prompt with the checkpoint of this name."""
    return lambda name: references(checkpoint(name))


@pytest.fixture(scope="session")
def arguments(checkpoint: Callable[[str], Path]) -> Callable[..., dict[str, Any]]:
    """Engine arguments for the checkpoint of this name."""

    def make(name: str, **changes: Any) -> dict[str, Any]:
        return {
            "model": str(checkpoint(name)),
            "enforce_eager": True,
            "dtype": "float32",
            "max_model_len": 256,
            "max_num_seqs": 8,
            "max_num_batched_tokens": 512,
            "kv_cache_memory_bytes": 16 << 20,
            "disable_log_stats": True,
            **changes,
        }

    return make
