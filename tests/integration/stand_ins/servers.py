"""The package indexes and the git repository, on loopback."""

from __future__ import annotations

import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def serve_index(folder: Path) -> Iterator[str]:
    """`folder/INDEX/*.whl` as simple indexes (PEP 503); gives the URL below which each is `INDEX/simple/`."""
    for index in [path for path in folder.iterdir() if path.is_dir()]:
        for wheel in sorted(index.glob("*.whl")):
            project = index / "simple" / wheel.name.partition("-")[0].replace("_", "-")
            project.mkdir(parents=True, exist_ok=True)
            shutil.copy(wheel, project)
            with (project / "index.html").open("a") as page:
                value = sha256(wheel.read_bytes()).hexdigest()
                page.write(f'<a href="{wheel.name.replace("+", "%2B")}#sha256={value}">{wheel.name}</a>\n')
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def serve_git(folder: Path) -> Iterator[str]:
    """Every repository below `folder`, by `git daemon`; gives the URL they are below."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    places = ["--listen=127.0.0.1", f"--port={port}", f"--base-path={folder}", "--export-all", "--reuseaddr"]
    log = folder / "daemon.log"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            ["git", "daemon", "--log-destination=stderr", *places, str(folder)], stderr=stream
        )
    try:
        deadline = time.monotonic() + 20
        while socket.socket().connect_ex(("127.0.0.1", port)):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, "git daemon does not answer"
            time.sleep(0.05)
        yield f"git://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()
