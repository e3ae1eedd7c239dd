"""The Docker engine that this user means: DOCKER_HOST, or the context of the docker client."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import docker
import requests
from docker.context import ContextAPI
from docker.errors import DockerException

from flbuild.errors import HostError


@contextmanager
def connect(environ: Mapping[str, str] = os.environ, seconds: int = 60) -> Iterator[docker.DockerClient]:
    """A client of the engine, which answers.

    Args:
        seconds: how long it may be silent.

    Raises:
        HostError: none answers.
    """
    client = None
    try:
        client = _client(environ, seconds)
        client.ping()
    except (DockerException, requests.ConnectionError) as error:
        if client is not None:
            client.close()
        raise engine_error(error) from error
    try:
        yield client
    finally:
        client.close()


def engine_error(error: Exception) -> HostError:
    """What it means that the engine does not answer as an engine does."""
    return HostError(
        "the Docker engine does not answer",
        cause=str(error),
        remedy="start it (dockerd), set DOCKER_HOST, or choose a context; flbuild doctor tells more",
    )


def _client(environ: Mapping[str, str], seconds: int) -> docker.DockerClient:
    """DOCKER_HOST counts more than a context, as for the docker client itself."""
    if not environ.get("DOCKER_HOST"):
        context = ContextAPI.get_context(environ.get("DOCKER_CONTEXT"))
        if context is not None and context.name != "default":
            return docker.DockerClient(base_url=context.Host, tls=context.TLSConfig or False, timeout=seconds)
    return docker.from_env(timeout=seconds, environment=dict(environ))
