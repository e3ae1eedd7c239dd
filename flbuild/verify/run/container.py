"""Runs a program in an image, by a Docker engine: without network, without mounts, and leaving nothing."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from importlib.resources import files
from pathlib import Path

import docker
import requests
from docker.errors import APIError, DockerException, ImageNotFound
from docker.models.containers import Container

from flbuild.build.docker_archive import Fetch, load_image
from flbuild.build.engine import connect, engine_error
from flbuild.build.model import Blob, BuiltImage
from flbuild.errors import HostError
from flbuild.files import CHUNK
from flbuild.progress import Progress
from flbuild.recipe.model import Recipe
from flbuild.verify.run.drivers import load_drivers
from flbuild.verify.run.observed import Observed, read_observed
from flbuild.verify.subject import Subject

IMPORT_SECONDS = 300
"""For each import; the first one of a large package reads it from a cold disk, or through an emulator."""

RUN_SECONDS = 3600

_NAME = "flbuild.local/verify:run"
"""What the image is called in the engine while it is needed there."""

_SHOWN = 600
"""Characters of a container's output that a message quotes."""


class DidNotStart(Exception):
    """The container ended before the program in it could report."""


def observe(subject: Subject, recipe: Recipe, progress: Progress) -> Observed:
    """Start the image in an engine and look around in it.

    Raises:
        HostError: no engine answers, or it cannot run this platform.
        DidNotStart: the image has no working interpreter where the recipe says.
    """
    with connect(seconds=RUN_SECONDS) as client:
        known = _has(client, str(subject.content["config"]["digest"]))
        with progress.task(f"load {subject.name} into the Docker engine"):
            image = known or load_image(_built(subject), _NAME, _fetch(subject))
        try:
            with progress.task(f"run {subject.name}"):
                output = _run(client, image, recipe)
        except requests.ConnectionError as error:
            raise engine_error(error) from error
        except DockerException as error:
            raise HostError(f"the Docker engine did not run {subject.name}", cause=str(error)) from error
        finally:
            if known is None:
                with suppress(DockerException):
                    client.images.remove(image, force=True)
    observed = read_observed(output)
    if observed is None:
        raise DidNotStart(output.strip()[-_SHOWN:] or "it printed nothing")
    return observed


def _run(client: docker.DockerClient, image: str, recipe: Recipe) -> str:
    """What the smoke program prints."""
    container: Container = client.containers.create(
        image,
        ["-c", files("flbuild.verify.run").joinpath("smoke.py").read_text(), json.dumps(_request(recipe))],
        entrypoint=[recipe.python.executable],
        network_mode="none",
        working_dir="/",
    )
    try:
        try:
            container.start()
        except APIError as error:
            raise DidNotStart(str(error.explanation)) from error
        ended = container.wait(timeout=RUN_SECONDS)
        output = container.logs().decode(errors="replace")
    finally:
        container.remove(force=True)
    if ended["StatusCode"] != 0 and "exec format error" in output.lower():
        raise HostError(
            f"this engine cannot run images for {recipe.platform}",
            cause=output.strip()[-_SHOWN:],
            remedy="set DOCKER_HOST to an engine of that architecture, or install qemu-user-static "
            "with binfmt-support",
        )
    return output


def _request(recipe: Recipe) -> dict[str, object]:
    pinned = [package.name for package in recipe.packages]
    drivers = load_drivers()
    wanted = [drivers[name] for name in recipe.base.components if name in drivers]
    return {
        "distributions": [*recipe.base.provides, *pinned, "vllm", recipe.plugin.name],
        "plugin": recipe.plugin.name,
        "groups": recipe.plugin.entry_points,
        "drivers": [name for driver in wanted for name in driver.libraries],
        "seconds": IMPORT_SECONDS,
    }


def _has(client: docker.DockerClient, image: str) -> str | None:
    try:
        return str(client.images.get(image).id)
    except ImageNotFound:
        return None


def _built(subject: Subject) -> BuiltImage:
    layers = tuple(
        Blob(layer.digest, layer.size, layer.media_type, layer.diff_id, None, from_base=False)
        for layer in subject.layers
    )
    return BuiltImage(
        manifest=subject.manifest,
        manifest_digest=subject.manifest_digest,
        manifest_media_type=subject.media_type,
        config=subject.config,
        config_digest=str(subject.content["config"]["digest"]),
        layers=layers,
        base_reference=None,
    )


def _fetch(subject: Subject) -> Fetch:
    def fetch(layer: Blob, path: Path) -> None:
        with subject.open_layer(layer.digest) as source, path.open("wb") as target:
            shutil.copyfileobj(source, target, CHUNK)

    return fetch
