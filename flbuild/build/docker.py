"""The builder `docker`: the rendered Dockerfile, by buildx where that is, else by the engine's own builder.

Whatever DOCKER_HOST or the docker client's current context names does the work: the whole build context
travels to it, so it may be another machine, of another architecture. Steps have no network and get no
secret, proxy or certificate, because nothing is left for them to fetch.
"""

from __future__ import annotations

import os
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, cast

import docker
import requests
from docker.errors import DockerException

from flbuild.build.engine import connect, engine_error
from flbuild.build.log import SHOWN_CHARACTERS, BuildLog, open_log, run_logged
from flbuild.build.model import BuiltImage, CacheOptions, Inputs
from flbuild.build.oci.cache import LayerCache
from flbuild.build.places import Place, base_place
from flbuild.build.saved import read_saved
from flbuild.errors import UsageError
from flbuild.files import CHUNK
from flbuild.plan.model import Plan
from flbuild.progress import Progress, Task
from flbuild.registry.credentials import Credentials
from flbuild.registry.stream import PieceStream
from flbuild.settings import Settings

SECONDS = 3600
"""How long the engine may be silent, for example while a step runs."""

_TOOL = "the Docker engine"
_PRUNE = "docker system prune"


class DockerBuilder:
    """Builds with a Docker engine."""

    name = "docker"
    guarantees: tuple[str, ...] = (
        "every input is pinned by hash",
        "the same installed files as builder oci",
        "another digest with every build, because the engine dates what it writes",
    )

    def __init__(
        self,
        settings: Settings,
        credentials: Credentials,
        cache: CacheOptions,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self._settings = settings
        self._credentials = credentials
        self._cache = cache
        self._environ = environ

    def check(self) -> None:
        """An engine answers, and can do what was asked.

        Raises:
            HostError: no engine.
            UsageError: `--cache-to` without buildx.
        """
        with connect(self._environ, SECONDS):
            pass
        if self._cache.target is not None and not self._has_buildx():
            raise UsageError(
                "--cache-to needs buildx, which this machine does not have",
                cause="the engine's classic builder keeps its cache in the engine alone",
                remedy="install docker-buildx, or leave --cache-to out",
            )

    def prepare(self, plan: Plan) -> None:
        """Nothing: what may have moved is asked when the context is written."""

    def build(self, plan: Plan, inputs: Inputs, progress: Progress) -> BuiltImage:
        """Build the plan's target and take the image out of the engine.

        Raises:
            BuildError, HostError, RemoteGoneError, RemoteRefusedError: by class, why the build failed.
        """
        logs = self._settings.cache_dir / "logs"
        with (
            connect(self._environ, SECONDS) as client,
            TemporaryDirectory(prefix="flbuild-context-") as folder,
            open_log(logs, plan, self.name, _TOOL, _PRUNE) as log,
        ):
            context = Path(folder) / "context"
            inputs.write_context(context)
            place = base_place(plan, self._settings, self._credentials)
            with _told(log), progress.task(f"build {plan.name} {plan.target} with {_TOOL}") as task:
                if place is not None:
                    _pull(client, plan, place, log)
                build = self._buildx if self._has_buildx() else self._classic
                image = build(client, plan, context, place, log, task)
            with _told(log), progress.task(f"take {plan.name} {plan.target} out of {_TOOL}"):
                saved = BufferedReader(PieceStream(client.api.get_image(image)), CHUNK)
                return read_saved(cast("IO[bytes]", saved), plan, LayerCache(self._settings.cache_dir))

    def _has_buildx(self) -> bool:
        try:
            done = subprocess.run(
                ["docker", "buildx", "version"], capture_output=True, check=False, env=dict(self._environ)
            )
        except OSError:
            return False
        return done.returncode == 0

    def _classic(
        self,
        client: docker.DockerClient,
        plan: Plan,
        context: Path,
        place: Place | None,
        log: BuildLog,
        task: Task,
    ) -> str:
        events = client.api.build(
            fileobj=cast("IO[bytes]", context_tar(context)),
            custom_context=True,
            target=plan.target,
            platform=f"{plan.os}/{plan.architecture}",
            network_mode="none",
            buildargs={"BASE_IMAGE": place.image} if place else {},
            cache_from=list(self._cache.sources),
            rm=True,
            forcerm=True,
            use_config_proxy=False,
            decode=True,
        )
        image = None
        for event in events:
            if text := event.get("error") or event.get("stream") or event.get("status"):
                log.write(text)
                task.note(text.strip().partition("\n")[0][:SHOWN_CHARACTERS])
            if "error" in event:
                raise log.failure()
            image = (event.get("aux") or {}).get("ID", image)
        if image is None:
            raise log.failure()
        return str(image)

    def _buildx(
        self,
        client: docker.DockerClient,
        plan: Plan,
        context: Path,
        place: Place | None,
        log: BuildLog,
        task: Task,
    ) -> str:
        iid = context.parent / "image-id"
        command = [
            *("docker", "buildx", "build", "--load", "--progress", "plain", "--network", "none"),
            *("--platform", f"{plan.os}/{plan.architecture}", "--target", plan.target, "--iidfile", str(iid)),
            *(("--build-arg", f"BASE_IMAGE={place.image}") if place else ()),
            *(part for source in self._cache.sources for part in ("--cache-from", source)),
            *(("--cache-to", self._cache.target) if self._cache.target else ()),
            str(context),
        ]
        run_logged(command, self._environ, log, task)
        return iid.read_text().strip()


def context_tar(folder: Path) -> Iterator[bytes]:
    """A build context as the engine takes it; times and owners are the same for the same files."""
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        member = tarfile.TarInfo(path.relative_to(folder).as_posix())
        member.size = path.stat().st_size
        member.mode = 0o644
        yield member.tobuf(tarfile.GNU_FORMAT)
        with path.open("rb") as stream:
            while piece := stream.read(CHUNK):
                yield piece
        yield bytes(-member.size % tarfile.BLOCKSIZE)
    yield bytes(2 * tarfile.BLOCKSIZE)


def _pull(client: docker.DockerClient, plan: Plan, place: Place, log: BuildLog) -> None:
    """Have the base in the engine, by digest, with the credentials of flbuild's settings if it has any."""
    repository = place.image.rpartition(":")[0]
    try:
        client.images.get(f"{repository}@{place.digest}")
        return
    except docker.errors.ImageNotFound:
        pass
    login: dict[str, Any] | None = None
    if place.credential is not None and place.credential.user:
        login = {"username": place.credential.user, "password": place.credential.secret.get_secret_value()}
    log.write(f"Step 0 : pull {repository}@{place.digest}")
    events = client.api.pull(
        repository,
        tag=place.digest,
        platform=f"{plan.os}/{plan.architecture}",
        auth_config=login,
        stream=True,
        decode=True,
    )
    for event in events:
        if text := event.get("error"):
            log.write(text)
            raise log.failure()


@contextmanager
def _told(log: BuildLog) -> Iterator[None]:
    """What the SDK raises is a line of the log like any other, and means what that line means."""
    try:
        yield
    except requests.ConnectionError as error:
        raise engine_error(error) from error
    except DockerException as error:
        log.write(str(error))
        raise log.failure() from error
