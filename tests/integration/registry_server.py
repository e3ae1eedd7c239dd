"""Debian's docker-registry on loopback: started, stopped and looked into by tests."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

USER, PASSWORD = "carol", "open sesame"
_PASSWORD_HASH = "$2y$05$abcdefghijklmnopqrstuupx2xBUC4954936wVIjyyPHmUBFu0wCW"


class RegistryServer:
    """One registry process. It keeps its port and its storage over a restart."""

    def __init__(self, folder: Path, *, private: bool = False) -> None:
        self.port = _free_port()
        self.host = f"127.0.0.1:{self.port}"
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        config: dict[str, object] = {
            "version": 0.1,
            "log": {"level": "warn", "accesslog": {"disabled": True}},
            "storage": {
                "filesystem": {"rootdirectory": str(folder / "data")},
                "delete": {"enabled": True},
                "maintenance": {"uploadpurging": {"enabled": False}},
            },
            "http": {"addr": self.host, "secret": "the same over a restart"},
        }
        if private:
            (folder / "htpasswd").write_text(f"{USER}:{_PASSWORD_HASH}\n")
            config["auth"] = {"htpasswd": {"realm": "tests", "path": str(folder / "htpasswd")}}
        (folder / "config.yml").write_text(yaml.safe_dump(config))

    def start(self) -> None:
        """Start it and wait until it answers."""
        program = shutil.which("docker-registry")
        assert program, "docker-registry is not installed: apt-get install docker-registry"
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [program, "serve", str(self._folder / "config.yml")],
                stdout=log,
                stderr=log,
                env={"PATH": os.environ["PATH"]},
            )
        deadline = time.monotonic() + 20
        while not self._answers():
            assert self._process.poll() is None, (self._folder / "log").read_text()
            assert time.monotonic() < deadline, "docker-registry does not answer"
            time.sleep(0.05)

    def stop(self) -> None:
        """End it at once, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def blobs(self) -> set[str]:
        """Digests of everything it stores."""
        root = self._folder / "data/docker/registry/v2/blobs/sha256"
        return {f"sha256:{path.parent.name}" for path in root.glob("*/*/data")}

    def blob_path(self, digest: str) -> Path:
        """The file that holds a blob."""
        name = digest.removeprefix("sha256:")
        return self._folder / f"data/docker/registry/v2/blobs/sha256/{name[:2]}/{name}/data"

    def _answers(self) -> bool:
        try:
            urllib.request.urlopen(f"http://{self.host}/v2/", timeout=2).close()
        except urllib.error.HTTPError as error:
            return error.code == 401
        except OSError:
            return False
        return True


@contextmanager
def serve(folder: Path, *, private: bool = False) -> Iterator[RegistryServer]:
    """A running registry with its storage below `folder`; `private` asks for `USER` and `PASSWORD`."""
    server = RegistryServer(folder, private=private)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
