"""``vllm serve`` on the reference device, driven by the real OpenAI client."""

from __future__ import annotations

import math
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import openai
import pytest

from tests.plugin.checkpoints import NEW_TOKENS, Reference

START_SECONDS = 120
STOP_SECONDS = 90


@dataclass(frozen=True)
class Server:
    process: subprocess.Popen[bytes]
    client: openai.OpenAI
    log: Path


def session_members(session: int) -> list[int]:
    """Ids of the live processes of a session; zombies have already let everything go."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, sid = stat.read_text().rpartition(")")[2].split()[:4]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(sid) == session and state != "Z":
            found.append(int(stat.parent.name))
    return found


def start_server(model: Path, environment: dict[str, str], log: Path, *options: str) -> Server:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", str(model)]
    command += ["--served-model-name", "tiny", "--host", "127.0.0.1", "--port", str(port), "--enforce-eager"]
    command += ["--dtype", "float32", "--max-model-len", "256", "--max-num-seqs", "8"]
    command += ["--kv-cache-memory-bytes", str(16 << 20), *options]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2)
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.3)
        else:
            client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="unused", max_retries=0)
            return Server(process, client, log)
    stop_server(process)
    pytest.fail(f"the server did not start:\n{log.read_text()[-4000:]}", pytrace=False)


def stop_server(process: subprocess.Popen[bytes]) -> list[int]:
    """Interrupt the server as Ctrl-C would; returns the processes it left behind, after ending them."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
    deadline = time.monotonic() + STOP_SECONDS
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    # Children may take a moment longer: Python's resource tracker ends once it sees that its parent has.
    while (left := session_members(process.pid)) and time.monotonic() < deadline:
        time.sleep(0.1)
    for member in left:
        os.kill(member, signal.SIGKILL)
    return left


@pytest.fixture(scope="module")
def server(
    checkpoint: Callable[[str], Path],
    plugin_environment: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Server]:
    log = tmp_path_factory.mktemp("serve") / "server.log"
    # The default suits machines that are less busy than one that runs tests.
    patience = ("--shutdown-timeout", str(STOP_SECONDS // 2))
    running = start_server(checkpoint("qwen3"), plugin_environment, log, *patience)
    yield running
    stop_server(running.process)


@pytest.fixture(scope="module")
def prompts(expected: Callable[[str], list[Reference]]) -> list[Reference]:
    return expected("qwen3")


def test_completions_equal_transformers(server: Server, prompts: list[Reference]) -> None:
    answer = server.client.completions.create(
        model="tiny",
        prompt=[list(reference.prompt) for reference in prompts],
        max_tokens=NEW_TOKENS,
        temperature=0,
        extra_body={"ignore_eos": True, "return_token_ids": True},
    )
    assert [choice.token_ids for choice in answer.choices] == [list(r.generated) for r in prompts]
    assert answer.usage.prompt_tokens == sum(len(reference.prompt) for reference in prompts)


def test_logprobs_are_a_distribution_led_by_the_greedy_token(server: Server) -> None:
    answer = server.client.completions.create(
        model="tiny",
        prompt="red number",
        max_tokens=4,
        temperature=0,
        logprobs=5,
        # As text, several tokens that are not whole characters would look the same.
        extra_body={"return_tokens_as_token_ids": True},
    )
    logprobs = answer.choices[0].logprobs
    assert len(logprobs.tokens) == 4
    for chosen, best in zip(logprobs.token_logprobs, logprobs.top_logprobs, strict=True):
        assert math.isclose(chosen, max(best.values()), abs_tol=1e-5)
        assert sum(map(math.exp, best.values())) <= 1 + 1e-5


def test_chat_and_its_stream_say_the_same(server: Server) -> None:
    request = {
        "model": "tiny",
        "messages": [{"role": "user", "content": "blue number 7"}],
        "max_tokens": 12,
        "temperature": 0,
    }
    whole = server.client.chat.completions.create(**request)
    pieces = [
        chunk.choices[0].delta.content or ""
        for chunk in server.client.chat.completions.create(**request, stream=True)
        if chunk.choices
    ]
    assert len(pieces) > 2
    assert "".join(pieces) == whole.choices[0].message.content != ""


def test_structured_output_follows_the_regex(server: Server) -> None:
    answer = server.client.completions.create(
        model="tiny",
        prompt="green",
        max_tokens=40,
        temperature=1.0,
        seed=3,
        extra_body={"structured_outputs": {"regex": r"(red|blue) number [0-9]{2}"}},
    )
    assert re.fullmatch(r"(red|blue) number [0-9]{2}", answer.choices[0].text)


def test_B25_B32_B33_a_batch_of_sampled_requests_takes_no_triton_kernel(server: Server) -> None:
    def ask(index: int) -> str:
        answer = server.client.completions.create(
            model="tiny",
            prompt=f"white number {index}",
            max_tokens=8,
            temperature=0.8,
            top_p=0.9,
            presence_penalty=0.3,
            frequency_penalty=0.1,
            seed=index,
            logit_bias={"40": 2.0},
            extra_body={"top_k": 20, "min_p": 0.02, "repetition_penalty": 1.1, "ignore_eos": True},
        )
        return answer.choices[0].text

    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(ask, range(8)))
    assert len(set(together)) > 1
    # A seeded request must not depend on the requests it happens to share a batch with.
    assert [ask(index) for index in range(8)] == together


def test_a_bad_request_is_refused_and_the_server_lives_on(server: Server) -> None:
    with pytest.raises(openai.BadRequestError, match="maximum"):
        server.client.completions.create(model="tiny", prompt=list(range(2, 300)), max_tokens=8)
    assert server.client.models.list().data[0].id == "tiny"


def test_stopping_the_server_leaves_no_process_and_no_traceback(server: Server) -> None:
    assert len(session_members(server.process.pid)) > 1
    assert stop_server(server.process) == []
    assert server.process.returncode in (0, -signal.SIGINT)
    log = server.log.read_text()
    assert "force killing" not in log
    # vLLM's front end may see that the engine is gone before it has stopped listening to it, and says so.
    assert not [line for line in log.splitlines() if "Traceback" in line and "[async_llm.py" not in line]
