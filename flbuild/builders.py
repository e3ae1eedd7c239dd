"""The builders by name, and what they are given: the plan's wheels, or the plan as a Dockerfile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from flbuild.base.source import BaseSource
from flbuild.build.buildah import BuildahBuilder
from flbuild.build.docker import DockerBuilder
from flbuild.build.model import Builder, CacheOptions
from flbuild.build.oci.assemble import OciBuilder
from flbuild.errors import UsageError
from flbuild.index.store import FileStore
from flbuild.lock.model import Lock, LockedFile, LockedImage
from flbuild.plan.explain import Builder as Described
from flbuild.recipe.model import Recipe
from flbuild.registry.credentials import Credentials
from flbuild.render.context import wanted_files
from flbuild.render.make import Renderer
from flbuild.render.write import write_rendering
from flbuild.settings import Settings
from flbuild.suggest import perhaps
from flbuild.wheel.builder import WheelBuilder
from flbuild.wheel.model import BuiltWheel

_KINDS = (OciBuilder, DockerBuilder, BuildahBuilder)

NAMES = tuple(kind.name for kind in _KINDS)
DESCRIBED = tuple(Described(kind.name, kind.guarantees) for kind in _KINDS)


def make_builder(
    name: str, settings: Settings, credentials: Credentials, bases: BaseSource, cache: CacheOptions
) -> Builder:
    """The builder of a name.

    Raises:
        UsageError: there is none, or it has no use for the cache options.
    """
    if name == OciBuilder.name:
        if cache != CacheOptions():
            raise UsageError(
                "--cache-from and --cache-to are for builders of Dockerfiles",
                cause="builder oci caches layers by their content, below FLBUILD_CACHE_DIR",
                remedy="keep that folder, or choose --builder docker or --builder buildah",
            )
        return OciBuilder(settings.cache_dir, bases)
    kinds = {kind.name: kind for kind in (DockerBuilder, BuildahBuilder)}
    if name not in kinds:
        raise UsageError(
            f"unknown builder '{name}'{perhaps(name, NAMES)}", remedy=f"choose {', '.join(NAMES)}"
        )
    return kinds[name](settings, credentials, cache)


@dataclass(frozen=True)
class PlanInputs:
    """See `flbuild.build.model.Inputs`."""

    recipe: Recipe
    lock: Lock
    target: str
    commit: str
    plugin: BuiltWheel
    store: FileStore
    wheels: WheelBuilder
    renderer: Renderer

    @property
    def _locked(self) -> LockedImage:
        return self.lock.images[self.recipe.name]

    def files(self) -> Mapping[str, Path]:
        """Locked wheels are fetched, and those with a locked source built."""
        wanted: tuple[LockedFile, ...] = (*self._locked.packages, *self._locked.targets.get(self.target, ()))
        files = self.store.fetch_all(wanted)
        for source in self._locked.sources:
            files[source.sha256] = self.wheels.build_locked(source, self.lock.build_tools)
        files[self.plugin.sha256] = self.plugin.path
        return files

    def write_context(self, folder: Path) -> None:
        """What `flbuild render` writes for the target, or the first reason why it would not be complete."""
        stages = self.renderer.stages(self.recipe, self.lock, self.target, self.commit, self.plugin)
        with TemporaryDirectory(prefix="flbuild-archives-") as archives:
            supply = self.renderer.supply(self.recipe.platform)
            supplied = supply.get(wanted_files(stages), Path(archives))
            for error in supplied.missing.values():
                raise error
            write_rendering(folder, self.renderer.texts(stages), supplied.paths)
