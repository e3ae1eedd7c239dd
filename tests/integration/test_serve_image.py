"""The cpu image does what it is for: a container of it serves a model, and answers."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests
from cpu_image import CpuImage
from docker.models.containers import Container
from docker_engine import Engine

from flbuild.build.docker_archive import archive
from flbuild.build.model import Blob
from flbuild.build.oci.layout import read_layout

CHECKPOINTS = Path(__file__).parents[1] / "plugin" / "checkpoints.py"
MAKE_MODEL = """
from pathlib import Path
from checkpoints import build, references
references(build("qwen3", Path("/model")))
"""
START_SECONDS = 180
STOP_SECONDS = 30


@dataclass(frozen=True)
class Server:
    container: Container
    url: str

    def ask(self, path: str, **request: object) -> dict[str, object]:
        answer = requests.post(f"{self.url}/v1/{path}", json={"model": "tiny", **request}, timeout=60)
        assert answer.ok, answer.text
        return dict(answer.json())


def no_fetch(layer: Blob, path: Path) -> None:
    raise AssertionError("every layer is in the layout")


@pytest.fixture(scope="module")
def image(cpu_image: CpuImage, engine: Engine) -> str:
    """Its id in the engine."""
    whole = archive(read_layout(cpu_image.layout), "flbuild.example/serve/cpu:1", no_fetch)
    (loaded,) = engine.client.images.load(whole)
    return str(loaded.id)


@pytest.fixture(scope="module")
def model(image: str, engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny checkpoint and what transformers generates from it, both made by the image's own packages."""
    folder = tmp_path_factory.mktemp("model")
    mounts = {
        str(CHECKPOINTS): {"bind": "/make/checkpoints.py", "mode": "ro"},
        str(folder): {"bind": "/model", "mode": "rw"},
    }
    engine.client.containers.run(
        image,
        ["python3", "-c", MAKE_MODEL],
        working_dir="/make",
        volumes=mounts,
        network_mode="none",
        remove=True,
    )
    return folder


@pytest.fixture(scope="module")
def server(image: str, model: Path, engine: Engine) -> Iterator[Server]:
    command = ["vllm", "serve", "/model", "--served-model-name", "tiny", "--enforce-eager"]
    command += ["--dtype", "float32", "--max-model-len", "256", "--kv-cache-memory-bytes", str(16 << 20)]
    container = engine.client.containers.run(
        image,
        command,
        detach=True,
        ports={"8000/tcp": ("127.0.0.1", None)},
        volumes={str(model): {"bind": "/model", "mode": "ro"}},
    )
    try:
        yield Server(container, wait_for(container))
    finally:
        container.remove(force=True)


def wait_for(container: Container) -> str:
    """Where the server of a container answers."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        container.reload()
        if container.status == "exited":
            break
        published = container.ports.get("8000/tcp")
        if published:
            url = f"http://127.0.0.1:{published[0]['HostPort']}"
            try:
                if requests.get(f"{url}/health", timeout=2).ok:
                    return url
            except requests.RequestException:
                pass
        time.sleep(0.3)
    raise AssertionError(f"the server did not start:\n{container.logs().decode()[-4000:]}")


def test_the_container_generates_what_transformers_does(server: Server, model: Path) -> None:
    expected = json.loads((model / "references.json").read_bytes())
    answer = server.ask(
        "completions",
        prompt=[reference["prompt"] for reference in expected],
        max_tokens=len(expected[0]["generated"]),
        temperature=0,
        ignore_eos=True,
        return_token_ids=True,
    )
    choices = answer["choices"]
    assert isinstance(choices, list)
    assert [choice["token_ids"] for choice in choices] == [reference["generated"] for reference in expected]


def test_the_container_chats(server: Server) -> None:
    answer = server.ask(
        "chat/completions", messages=[{"role": "user", "content": "blue number 7"}], max_tokens=8
    )
    choices = answer["choices"]
    assert isinstance(choices, list)
    assert choices[0]["message"]["content"]


def test_the_server_runs_on_the_plugins_cpu_platform_and_stops_when_asked(server: Server) -> None:
    assert "Platform plugin fl is activated" in server.container.logs().decode()
    server.container.stop(timeout=STOP_SECONDS)
    ended = server.container.wait()
    assert ended["StatusCode"] == 0, server.container.logs().decode()[-4000:]
