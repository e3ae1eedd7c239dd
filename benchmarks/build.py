#!/usr/bin/env python3
"""The assembler against the Docker engine: the same image, built and pushed, cold and after a plugin change.

Both start from the same downloads: wheels, sources and a Debian base are here, layers and built wheels are
not. The assembler's time is that of `flbuild image --push`, all of it. The engine's is that of its build
and its push alone: the context is rendered for it beforehand. Engines are the classic builder, and buildx
where the docker client has it. Registry and engine are on loopback, and a proxy counts every byte between
builder and registry.

`--recipe ascend` and `--recipe cuda` stand on bases in that registry (stand-ins, see tests/integration),
`--recipe cpu` is the one with byte-code. The JSON object on stdout has, for `oci`, `classic` and `buildx`:
  cold_s, change_s        seconds for the first image, and after a change to one module of the plugin
  *_sent, *_received      bytes to and from the registry meanwhile, headers included
  *_ratio                 the engine's time divided by the assembler's
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "integration"))

from cache_copy import copy_cache
from checkout import REPOSITORY, Checkout, clone_repository
from docker_engine import Engine, run_engine
from registry_server import serve
from stand_ins.project import hardware_checkout

from flbuild.build.docker import context_tar
from flbuild.lock.io import read_lock
from flbuild.lock.model import LockedDebianBase, LockedImageBase
from flbuild.settings import load_settings

MODULE = "plugin/vllm_fl/__init__.py"


@dataclass
class Traffic:
    """A TCP proxy that counts. `host` is what to talk to instead of the registry."""

    host: str
    sent: int = 0
    received: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, *, sent: int = 0, received: int = 0) -> None:
        """Count bytes to and from the registry."""
        with self._lock:
            self.sent += sent
            self.received += received


@contextmanager
def counting(port: int) -> Iterator[Traffic]:
    """Count what passes to the registry on a port of this machine and back."""
    listener = socket.create_server(("127.0.0.1", 0))
    traffic = Traffic(f"127.0.0.1:{listener.getsockname()[1]}")

    def pump(source: socket.socket, target: socket.socket, count: Callable[[int], None]) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 18):
                count(len(data))
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def accept() -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                server = socket.create_connection(("127.0.0.1", port))
                for source, target, count in (
                    (client, server, lambda size: traffic.add(sent=size)),
                    (server, client, lambda size: traffic.add(received=size)),
                ):
                    threading.Thread(target=pump, args=(source, target, count), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield traffic
    finally:
        listener.close()


def main() -> None:
    """Measure; a table goes to stderr."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print nothing but the JSON object")
    parser.add_argument("--recipe", choices=("cpu", "cuda", "ascend"), default="cpu")
    options = parser.parse_args()
    with ExitStack() as stack:
        # Of this name, because an engine's socket needs a short path.
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="flbuild-bench-")))
        result = measure(folder, options.recipe, stack)
    if not options.json:
        sys.stderr.write(table(result))
    sys.stdout.write(json.dumps(result) + "\n")


def measure(folder: Path, recipe: str, stack: ExitStack) -> dict[str, Any]:
    """All figures."""
    server = stack.enter_context(serve(folder / "registry"))
    traffic = stack.enter_context(counting(server.port))
    cache = load_settings(None, os.environ).cache_dir
    if recipe == "cpu":
        project = Checkout(folder / "project", {**os.environ, "FLBUILD_CACHE_DIR": str(cache)})
        clone_repository(REPOSITORY, project.root)
        project.flbuild("lock", recipe, "--refresh-base")
    else:
        project = stack.enter_context(hardware_checkout(folder / "stand-ins", traffic.host, cache))
    # Everything that is downloaded is here from now on, and the plugin has the commit to start from.
    project.flbuild("render", recipe, "--target", "release", "--output", str(folder / "first"))
    start = project.git("rev-parse", "HEAD").strip()
    text = (project.root / MODULE).read_text()
    change = project.commit(MODULE, f"{text}\n# One more line.\n")
    project.flbuild("render", recipe, "--target", "release", "--output", str(folder / "second"))
    contexts = {start: folder / "first", change: folder / "second"}

    result: dict[str, Any] = {"recipe": recipe, "processors": os.cpu_count()}
    cache = cold_cache(project, recipe, folder)
    own = Checkout(project.root, {**project.environ, "FLBUILD_CACHE_DIR": str(cache)})

    def assembler(commit: str, *, cold: bool) -> None:
        push = ["--push", "--reference", f"{traffic.host}/bench/oci:1"]
        own.flbuild("image", recipe, "--commit", commit, *push)

    result["oci"] = timed(traffic, assembler, start, change)
    engine = stack.enter_context(run_engine())
    base = base_arguments(project, recipe, traffic)
    for name, build in {"classic": classic, **({"buildx": buildx} if has_buildx() else {})}.items():
        reference = f"{traffic.host}/bench/{name}:1"

        def by_engine(commit: str, *, cold: bool, build: Any = build, reference: str = reference) -> None:
            build(engine, contexts[commit], base, reference, cold=cold)
            push_from(engine, reference)

        result[name] = timed(traffic, by_engine, start, change)
        engine.client.images.remove(reference, force=True)
        for key in ("cold", "change"):
            ratio = result[name][f"{key}_s"] / result["oci"][f"{key}_s"]
            result[name][f"{key}_ratio"] = round(ratio, 2)
    return result


def timed(traffic: Traffic, work: Callable[..., None], start: str, change: str) -> dict[str, Any]:
    """Seconds and bytes of the first image and of the one after a change."""
    found: dict[str, Any] = {}
    for key, commit in (("cold", start), ("change", change)):
        sent, received, began = traffic.sent, traffic.received, time.monotonic()
        work(commit, cold=key == "cold")
        found[f"{key}_s"] = round(time.monotonic() - began, 2)
        found[f"{key}_sent"] = traffic.sent - sent
        found[f"{key}_received"] = traffic.received - received
    return found


def cold_cache(project: Checkout, recipe: str, folder: Path) -> Path:
    """A cache with downloads and a Debian base, and nothing that was made of them."""
    made = {"layers", "wheels", "interpreters", "build-tools"}
    cache = copy_cache(Path(project.environ["FLBUILD_CACHE_DIR"]), folder / "cache", without=made)
    entry = read_lock(project.root / "images.lock").images[recipe]
    kept = entry.base.layer.digest if isinstance(entry.base, LockedDebianBase) else ""
    for blob in (cache / "blobs" / "sha256").iterdir():
        if blob.name != kept.removeprefix("sha256:"):
            blob.unlink()
    for source in entry.sources:
        shutil.rmtree(cache / "files" / source.sha256)
    for wheel in (cache / "files").glob("*/vllm_plugin_fl-*.whl"):
        shutil.rmtree(wheel.parent)
    return cache


def base_arguments(project: Checkout, recipe: str, traffic: Traffic) -> dict[str, str]:
    """Build arguments that lead an engine to the base."""
    base = read_lock(project.root / "images.lock").images[recipe].base
    if not isinstance(base, LockedImageBase):
        return {}
    return {"BASE_IMAGE": f"{traffic.host}/{base.reference.partition('/')[2]}"}


def classic(engine: Engine, context: Path, base: dict[str, str], reference: str, *, cold: bool) -> None:
    """The engine's own builder."""
    events = engine.client.api.build(
        fileobj=cast("IO[bytes]", context_tar(context)),
        custom_context=True,
        target="release",
        tag=reference,
        network_mode="none",
        buildargs=base,
        nocache=cold,
        rm=True,
        decode=True,
    )
    for event in events:
        if "error" in event:
            raise SystemExit(f"the engine did not build: {event['error']}")


def buildx(engine: Engine, context: Path, base: dict[str, str], reference: str, *, cold: bool) -> None:
    """The engine's BuildKit."""
    arguments = [part for key, value in base.items() for part in ("--build-arg", f"{key}={value}")]
    command = ["docker", "buildx", "build", "--load", "--network", "none", "--target", "release", *arguments]
    command += ["--no-cache"] if cold else []
    environ = {**os.environ, "DOCKER_HOST": engine.address}
    subprocess.run([*command, "--tag", reference, str(context)], check=True, env=environ, capture_output=True)


def push_from(engine: Engine, reference: str) -> None:
    """Push, and fail if the engine does."""
    repository, _, tag = reference.rpartition(":")
    for event in engine.client.api.push(repository, tag=tag, stream=True, decode=True):
        if "error" in event:
            raise SystemExit(f"the engine did not push: {event['error']}")


def has_buildx() -> bool:
    """Whether the docker client has it."""
    with suppress(OSError):
        return subprocess.run(["docker", "buildx", "version"], capture_output=True).returncode == 0
    return False


def table(result: dict[str, Any]) -> str:
    """The figures side by side."""
    names = [name for name in ("oci", "classic", "buildx") if name in result]
    keys = list(dict.fromkeys(key for name in names for key in result[name]))
    lines = [f"{result['recipe']:<18}" + "".join(f"{name:>16}" for name in names)]
    lines += [f"{key:<18}" + "".join(f"{result[name].get(key, ''):>16}" for name in names) for key in keys]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
