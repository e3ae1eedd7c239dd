"""A Docker engine: the one that runs here, or one started for the tests with a place of its own."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import docker
from docker.errors import DockerException

_START_SECONDS = 60


@dataclass(frozen=True)
class Engine:
    """`address` is what DOCKER_HOST is set to."""

    address: str
    client: docker.DockerClient

    def run(self, image: str, command: list[str]) -> str:
        """The output of a command in a container of `image` that has no network and is gone afterwards."""
        output = self.client.containers.run(image, command, remove=True, network_mode="none")
        return output.decode()


@contextmanager
def run_engine() -> Iterator[Engine]:
    """An engine for the length of the block.

    There is one at a time on a machine: two daemons would take the bridge from each other.
    """
    with (Path(tempfile.gettempdir()) / "flbuild-tests-engine.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        running = _connect(os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock"))
        if running is not None:
            yield running
            return
        with _started() as own:
            yield own


@contextmanager
def _started() -> Iterator[Engine]:
    program = shutil.which("dockerd")
    assert program, "dockerd is not installed: apt-get install docker.io"
    # A socket's path is short, so this is no folder of pytest's.
    folder = Path(tempfile.mkdtemp(prefix="flbuild-engine-"))
    address = f"unix://{folder}/socket"
    command = [
        *(program, "--host", address, "--data-root", str(folder / "data")),
        *("--exec-root", str(folder / "exec"), "--pidfile", str(folder / "pid")),
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + _START_SECONDS
        while (own := _connect(address)) is None:
            assert process.poll() is None, (folder / "log").read_text()[-4000:]
            assert time.monotonic() < deadline, f"dockerd does not answer: {folder}/log"
            time.sleep(0.1)
        yield own
        own.client.close()
    finally:
        process.terminate()
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _connect(address: str) -> Engine | None:
    try:
        client = docker.DockerClient(base_url=address, timeout=600)
        client.ping()
    except DockerException:
        return None
    return Engine(address, client)
