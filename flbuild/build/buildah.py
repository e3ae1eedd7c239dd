"""The builder `buildah`: the rendered Dockerfile without a daemon, everything in it dated alike."""

from __future__ import annotations

import base64
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from flbuild.build.log import open_log, run_logged
from flbuild.build.model import BuiltImage, CacheOptions, Inputs
from flbuild.build.oci.cache import LayerCache
from flbuild.build.oci.tar import LAYER_EPOCH
from flbuild.build.places import Place, base_place
from flbuild.build.saved import read_saved
from flbuild.errors import HostError
from flbuild.plan.model import Plan
from flbuild.progress import Progress
from flbuild.registry.credentials import Credentials
from flbuild.settings import Settings

PROGRAM = "buildah"
_PRUNE = "buildah rmi --prune"
_LOGINS = ("DOCKER_CONFIG", "REGISTRY_AUTH_FILE")


class BuildahBuilder:
    """Builds with buildah."""

    name = "buildah"
    guarantees: tuple[str, ...] = (
        "every input is pinned by hash",
        "the same installed files as builder oci",
        "the same lock and the same plugin commit give the same digest with the same version of buildah",
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
        """Buildah is installed.

        Raises:
            HostError: it is not.
        """
        if shutil.which(PROGRAM, path=self._environ.get("PATH")) is None:
            raise HostError("buildah is not installed", remedy="apt-get install buildah")

    def prepare(self, plan: Plan) -> None:
        """Nothing: what may have moved is asked when the context is written."""

    def build(self, plan: Plan, inputs: Inputs, progress: Progress) -> BuiltImage:
        """Build the plan's target and take the image out of buildah's storage.

        Raises:
            BuildError, HostError, RemoteGoneError, RemoteRefusedError: by class, why the build failed.
        """
        with (
            TemporaryDirectory(prefix="flbuild-context-") as folder,
            open_log(self._settings.cache_dir / "logs", plan, self.name, PROGRAM, _PRUNE) as log,
        ):
            work = Path(folder)
            inputs.write_context(work / "context")
            with progress.task(f"build {plan.name} {plan.target} with buildah") as task:
                command = self._command(plan, work)
                run_logged(command, self._environ, log, task)
            with progress.task(f"take {plan.name} {plan.target} out of buildah") as task:
                image, archive = (work / "image-id").read_text().strip(), work / "image.tar"
                command = [PROGRAM, "push", "--quiet", image, f"docker-archive:{archive}"]
                # A file needs no login, and buildah stops where these name one that is not there.
                environ = {key: value for key, value in self._environ.items() if key not in _LOGINS}
                run_logged(command, environ, log, task)
                with archive.open("rb") as saved:
                    return read_saved(saved, plan, LayerCache(self._settings.cache_dir))

    def _command(self, plan: Plan, work: Path) -> list[str]:
        place = base_place(plan, self._settings, self._credentials)
        return [
            *(PROGRAM, "build", "--layers", "--timestamp", str(LAYER_EPOCH), "--network", "none"),
            # Steps need no network, so what leads to it has no place in their environment.
            "--http-proxy=false",
            # Labels are those of the plan, whoever builds.
            "--identity-label=false",
            *("--platform", f"{plan.os}/{plan.architecture}", "--target", plan.target),
            *("--iidfile", str(work / "image-id")),
            *(_reach(place, work) if place else ()),
            *(part for source in self._cache.sources for part in ("--cache-from", source)),
            *(("--cache-to", self._cache.target) if self._cache.target else ()),
            str(work / "context"),
        ]


def _reach(place: Place, work: Path) -> list[str]:
    """Options that lead to a registry; credentials go by a file that only this user can read."""
    options = ["--build-arg", f"BASE_IMAGE={place.image}"]
    if place.plain_http:
        options.append("--tls-verify=false")
    if place.ca_bundle is not None:
        certificates = work / "certificates"
        certificates.mkdir()
        shutil.copy(place.ca_bundle, certificates / "ca.crt")
        options += ["--cert-dir", str(certificates)]
    if place.credential is not None and place.credential.user:
        pair = f"{place.credential.user}:{place.credential.secret.get_secret_value()}"
        login = {"auths": {place.host: {"auth": base64.b64encode(pair.encode()).decode()}}}
        path = work / "auth.json"
        path.touch(mode=0o600)
        path.write_text(json.dumps(login))
        options += ["--authfile", str(path)]
    return options
