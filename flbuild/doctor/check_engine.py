"""Engines, for `--load` and for building a rendered Dockerfile; the main job needs none."""

from __future__ import annotations

from collections.abc import Iterator

import docker
from docker.errors import DockerException

from flbuild.doctor.context import SECONDS, Machine, good, lacking
from flbuild.finding import Finding


def engine(machine: Machine) -> Iterator[Finding]:
    """A Docker engine that answers, wherever DOCKER_HOST says."""
    try:
        client = docker.from_env(timeout=SECONDS)
        try:
            version = client.version()
        finally:
            client.close()
    except (DockerException, OSError) as error:
        yield lacking(
            "docker",
            "engine",
            f"no Docker engine answers: {_short(error)}",
            "start one, or set DOCKER_HOST; only --load and rendered Dockerfiles need an engine",
        )
        return
    yield good("docker", "engine", f"{version['Version']}, {version['Os']}/{version['Arch']}")


def buildx(machine: Machine) -> Iterator[Finding]:
    """BuildKit's command, which builds a rendered Dockerfile."""
    version = machine.run("docker", "buildx", "version")
    if version is None:
        yield lacking(
            "buildx", "docker buildx", "it is not installed", "install it to build what flbuild render writes"
        )
    else:
        yield good("buildx", "docker buildx", version)


def buildah(machine: Machine) -> Iterator[Finding]:
    """buildah, which builds a rendered Dockerfile without an engine."""
    version = machine.run("buildah", "--version")
    if version is None:
        yield lacking("buildah", "buildah", "it is not installed", "apt-get install buildah")
    else:
        yield good("buildah", "buildah", version.removeprefix("buildah version "))


def _short(error: Exception) -> str:
    text = str(error)
    return text if len(text) < 120 else f"{text[:117]}..."
