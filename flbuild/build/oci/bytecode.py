"""Byte-code for the Python files of a layer, by several processes of the image's interpreter."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO, TYPE_CHECKING

from flbuild.build.oci.entries import Content, Entry
from flbuild.errors import BuildError

if TYPE_CHECKING:
    from flbuild.build.oci.interpreter import Interpreter
    from flbuild.plan.model import InstallScheme
    from flbuild.progress import Task

BYTECODE_FORMAT = "pyc-unchecked-hash-marshal-2"
"""Names what decides the compiled bytes beside source and interpreter; part of layer cache keys."""


def compile_entries(
    entries: Sequence[Entry], interpreter: Interpreter, scheme: InstallScheme, task: Task
) -> dict[str, Entry]:
    """By the path of its source, a .pyc entry for every module below site-packages that compiles.

    Raises:
        BuildError: a worker died.
    """
    root = scheme.site_packages.lstrip("/") + "/"
    sources = [
        entry
        for entry in entries
        if entry.path.startswith(root) and entry.path.endswith(".py") and entry.content.data is not None
    ]
    results: dict[str, bytes] = {}
    waiting: SimpleQueue[Entry] = SimpleQueue()
    # The longest first, so that no worker is left alone with one at the end.
    for entry in sorted(sources, key=lambda entry: -entry.content.size):
        waiting.put(entry)
    workers = min(os.cpu_count() or 1, len(sources))
    script = Path(__file__).with_name("compile_worker.py")
    with ThreadPoolExecutor(max(workers, 1)) as pool:
        jobs = [pool.submit(_work, waiting, results, interpreter, script, task) for _ in range(workers)]
        for job in jobs:
            job.result()
    cache_tag = f"cpython-{scheme.python_version.replace('.', '')}"
    return {
        entry.path: Entry(
            _cached_path(entry.path, cache_tag), Content.of(results[entry.path]), 0o644, entry.owner
        )
        for entry in sources
        if results[entry.path]
    }


def _work(
    waiting: SimpleQueue[Entry],
    results: dict[str, bytes],
    interpreter: Interpreter,
    script: Path,
    task: Task,
) -> None:
    """Keep one process busy until nothing waits."""
    command = [*interpreter.command, str(script)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=dict(interpreter.environment)
    ) as process:
        while True:
            try:
                entry = waiting.get_nowait()
            except Empty:
                break
            try:
                results[entry.path] = _ask(process, f"/{entry.path}", entry.content.data or b"")
            except (OSError, EOFError) as error:
                process.kill()
                raise BuildError(f"compiling {entry.path} of {entry.owner} ended the interpreter") from error
            task.advance(1)
        if process.stdin is not None:
            process.stdin.close()


def _ask(process: subprocess.Popen[bytes], path: str, source: bytes) -> bytes:
    if process.stdin is None or process.stdout is None:
        raise EOFError
    for part in (path.encode(), source):
        process.stdin.write(len(part).to_bytes(8, "big") + part)
    process.stdin.flush()
    return _read(process.stdout, int.from_bytes(_read(process.stdout, 8), "big"))


def _read(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if len(data) != size:
        raise EOFError
    return data


def _cached_path(path: str, cache_tag: str) -> str:
    """PEP 3147: `a/b.py` is compiled to `a/__pycache__/b.cpython-311.pyc`."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/__pycache__/{name.removesuffix('.py')}.{cache_tag}.pyc"
