"""flbuild killed at random moments: what is on disk stays whole, and the next run completes the work."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
from checkout import FLBUILD, Checkout
from registry_server import RegistryServer
from tiny_project import NAME, make_packages, make_project

from flbuild.build.model import BuiltImage
from flbuild.build.oci.layout import read_layout
from flbuild.lock.io import read_lock
from flbuild.progress import Silent
from flbuild.registry.client import RegistryClient
from flbuild.registry.push import push_image
from flbuild.registry.reference import Reference
from flbuild.settings import load_settings

ROUNDS = 4
"""Each starts with nothing, kills every command twice, and ends with runs that nobody disturbs."""

LOCK = ("lock", NAME)
BUILD = ("image", NAME, "--output", "oci:out", "--push")
COUNTING = (sys.executable, str(Path(__file__).with_name("kill_at.py")))


@dataclass(frozen=True)
class Ended:
    """A process that came to its end, or was killed."""

    done: bool
    seconds: float
    told: str


@pytest.fixture
def make_tiny(
    registry: RegistryServer,
    client: RegistryClient,
    make_image: Callable[..., BuiltImage],
    cache_dir: Path,
    tmp_path: Path,
) -> Callable[[str], Checkout]:
    """`make_tiny(name)`: the small project with an empty cache, to be pushed to the repository `name`."""
    base = Reference.parse(f"{registry.host}/base/tiny:1")
    push_image(client, make_image(padding=1 << 20, note="tiny"), base, Silent())
    shared = load_settings(None, {**os.environ, "FLBUILD_CACHE_DIR": str(cache_dir)})
    packages = make_packages(tmp_path / "packages", shared)

    def make(name: str) -> Checkout:
        folder = tmp_path / name
        repository = f"{registry.host}/killed/{name}"
        return make_project(folder / "project", packages, str(base), repository, folder / "cache")

    return make


def lock_text(project: Checkout) -> str:
    """The lock, with the name of the one repository that differs between the projects taken out."""
    return (project.root / "images.lock").read_text().replace(f"/killed/{project.root.parent.name}:", ":")


def run(project: Checkout, *command: str, seconds: float | None = None, everything: bool = True) -> Ended:
    """Run a command and end it after so many seconds; with `everything`, the programs that it runs too."""
    start = time.monotonic()
    process = subprocess.Popen(
        command,
        cwd=project.root,
        env=dict(project.environ),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        _, told = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        if everything:
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.wait()
        told = ""
    assert process.returncode in (0, -signal.SIGKILL), told
    return Ended(process.returncode == 0, time.monotonic() - start, told)


def require_whole(project: Checkout, client: RegistryClient, known: set[str]) -> None:
    """Nothing that can be found by its name is half of something."""
    text = lock_text(project)
    assert text in known, "images.lock is neither the old nor a new one"
    read_lock(project.root / "images.lock")
    if (project.root / "out").exists():
        for layer in read_layout(project.root / "out").layers:
            assert layer.path is not None
            assert f"sha256:{hashlib.sha256(layer.path.read_bytes()).hexdigest()}" == layer.digest
    cache = Path(project.environ["FLBUILD_CACHE_DIR"])
    for path in (cache / "blobs" / "sha256").glob("[!.]*"):
        assert hashlib.sha256(path.read_bytes()).hexdigest() == path.name
    for path in (cache / "files").glob("[!.]*/[!.]*"):
        assert hashlib.sha256(path.read_bytes()).hexdigest() == path.parent.name
    target = Reference.parse(f"{published_at(project)}:tiny-release")
    if client.tags(target):
        for layer in client.manifest(target).content["layers"]:
            assert client.has_blob(target, layer["digest"])


def published_at(project: Checkout) -> str:
    recipe = (project.root / "recipes" / f"{NAME}.yaml").read_text()
    return recipe.split("repository: ")[1].split(",")[0]


def leftovers(project: Checkout) -> list[str]:
    """Names that only unfinished work has."""
    return [
        str(path.relative_to(project.root.parent))
        for path in project.root.parent.rglob(".*")
        if path.name.endswith(".tmp") or len(path.name.split(".")) > 3
    ]


@pytest.mark.timeout(600)
def test_killed_at_any_moment_nothing_is_half_written_and_the_next_run_completes_it(
    make_tiny: Callable[[str], Checkout], client: RegistryClient
) -> None:
    project = make_tiny("undisturbed")
    texts, changes, seconds = {lock_text(project)}, {}, {}
    for command in (LOCK, BUILD):
        ended = run(project, *COUNTING, "0", *command)
        assert ended.done, ended.told
        changes[command], seconds[command] = int(ended.told.split()[-1]), ended.seconds
        texts.add(lock_text(project))
    expected = read_layout(project.root / "out")
    moments = Random(20260101)
    killed = 0
    for number in range(ROUNDS):
        project = make_tiny(f"round{number}")
        for command in (LOCK, BUILD):
            at = str(moments.randint(1, changes[command]))
            ended = run(project, *COUNTING, at, *command)
            killed += not ended.done
            require_whole(project, client, texts)
            # What the killed one completed is not done again, so this one meets later moments.
            moment, everything = moments.uniform(0, seconds[command] / 2), moments.random() < 0.5
            ended = run(project, FLBUILD, *command, seconds=moment, everything=everything)
            killed += not ended.done
            require_whole(project, client, texts)
            project.flbuild(*command)
        assert lock_text(project) in texts
        assert read_layout(project.root / "out").manifest == expected.manifest
        target = Reference.parse(f"{published_at(project)}:tiny-release")
        assert client.manifest(target).raw == expected.manifest
        require_whole(project, client, texts)
        assert leftovers(project) == []
    # A command may have been through before the moment came.
    assert killed > ROUNDS * 2
