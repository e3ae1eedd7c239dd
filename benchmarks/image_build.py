#!/usr/bin/env python3
"""How long the cpu image takes: from nothing, and again after a change to the plugin; and what a push sends.

Works in a clone of the repository at HEAD, with `flbuild` from the environment that runs this program, and
with a `docker-registry` on loopback. Without `--warm CACHE` it starts from an empty cache folder, so it
downloads everything and bootstraps Debian.

The last thing printed is one JSON object (the only thing on stdout with --json):
  cold_s        seconds for the first image; null with --warm
  second_s      seconds for image and push after a change to the plugin alone
  sent_bytes    request bytes of that push
  plugin_bytes  compressed bytes of the plugin's layer
  sent_ratio    sent_bytes / plugin_bytes
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FLBUILD = [sys.executable, "-m", "flbuild"]


def main() -> None:
    """Measure, print a table to stderr and the JSON object to stdout."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print nothing but the JSON object")
    parser.add_argument("--warm", type=Path, metavar="CACHE", help="start from this cache folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="flbuild-bench-") as folder:
        result = measure(Path(folder), options.warm)
    if not options.json:
        for key, value in result.items():
            sys.stderr.write(f"{key:<14}{value}\n")
    sys.stdout.write(json.dumps(result) + "\n")


def measure(folder: Path, warm: Path | None) -> dict[str, Any]:
    """All figures, in a fresh clone below `folder`."""
    clone = folder / "project"
    run(["git", "clone", "--quiet", str(ROOT), str(clone)])
    environment = {**os.environ, "FLBUILD_CACHE_DIR": str(warm.resolve() if warm else folder / "cache")}
    with registry(folder) as host:
        repository = f"{host}/bench"
        start = time.monotonic()
        image(clone, environment, repository)
        cold = time.monotonic() - start
        change_plugin(clone)
        start = time.monotonic()
        second = image(clone, environment, repository)
        warm_seconds = time.monotonic() - start
    plugin = second["layers"][-1]["size"]
    sent = second["push"]["sent"]
    return {
        "cold_s": None if warm else round(cold, 2),
        "second_s": round(warm_seconds, 2),
        "sent_bytes": sent,
        "plugin_bytes": plugin,
        "sent_ratio": round(sent / plugin, 4),
    }


def image(clone: Path, environment: dict[str, str], repository: str) -> dict[str, Any]:
    """Build and push, and give what `flbuild image --json` says."""
    command = [*FLBUILD, "image", "cpu", "--refresh-base", "--push", "--reference", repository, "--json"]
    done = subprocess.run(command, cwd=clone, env=environment, stdout=subprocess.PIPE, check=True)
    result = json.loads(done.stdout)
    assert isinstance(result, dict)
    return result


def change_plugin(clone: Path) -> None:
    """Commit one more line in one module of the plugin."""
    with (clone / "plugin" / "vllm_fl" / "__init__.py").open("a") as stream:
        stream.write("# one more line\n")
    identity = ["-c", "user.name=benchmark", "-c", "user.email=benchmark@localhost"]
    run(["git", "-C", str(clone), *identity, "commit", "--quiet", "--all", "--message", "Change one module"])


@contextlib.contextmanager
def registry(folder: Path) -> Iterator[str]:
    """A registry on loopback for as long as the block runs; gives host and port."""
    program = shutil.which("docker-registry")
    if program is None:
        sys.exit("docker-registry is not installed: apt-get install docker-registry")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = folder / "registry.yml"
    config.write_text(
        "version: 0.1\nlog: {level: error}\n"
        f"storage: {{filesystem: {{rootdirectory: {folder / 'registry'}}}}}\n"
        f"http: {{addr: '127.0.0.1:{port}'}}\n"
    )
    command = [program, "serve", str(config)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            time.sleep(0.1)
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def run(command: list[str]) -> None:
    """Run a command that must succeed."""
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
