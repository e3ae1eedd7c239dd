"""A Debian base, locked by its package list and by the hash of its root file system."""

from __future__ import annotations

import platform as host
import time
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from flbuild.base.bootstrap import EPOCH, Bootstrap
from flbuild.base.inventory import Inventory, read_tar
from flbuild.build.oci.cache import MEDIA_TYPE, LayerCache
from flbuild.build.oci.compress import compress
from flbuild.errors import BaseMovedError, HostError
from flbuild.files import unnamed_folder, write_atomic
from flbuild.lock.model import DebianPackage, LockedDebianBase, LockedLayer
from flbuild.progress import Progress
from flbuild.recipe.model import DebianBase
from flbuild.settings import Settings

_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}

RECENT = 900
"""Seconds for which a base that was just made counts as the state of the archive: who finds that a base has
moved on and locks it again need not make it twice."""


class DebianBases:
    """Makes Debian bases; one is kept as a layer file in the cache."""

    def __init__(self, settings: Settings, progress: Progress, *, offline: bool = False) -> None:
        self._offline = offline
        self._settings = settings
        self._cache = LayerCache(settings.cache_dir)
        self._bases = settings.cache_dir / "bases"
        self._progress = progress

    def lock(self, base: DebianBase, platform: str) -> LockedDebianBase:
        """The base as Debian's archive gives it now.

        Raises:
            HostError: this machine cannot make a base of that architecture, or lacks something for it.
            UnreachableError: the archive does not answer.
            RecipeError: there is no such suite or package.
            BuildError: the bootstrap failed.
        """
        bootstrap = self._bootstrap(base.debian, base.packages, platform)
        return self._recent(bootstrap) or self._make(bootstrap, base.debian, base.packages)

    def layer(self, base: LockedDebianBase, platform: str) -> Path:
        """The layer file of a locked base: from the cache, else made again and compared.

        Raises:
            BaseMovedError: the archive gives other packages now, or other bytes.
        """
        path = self._cache.verified(base.layer.digest, base.layer.size)
        if path is not None:
            return path
        made = self._make(self._bootstrap(base.suite, base.requested, platform), base.suite, base.requested)
        if made.layer.diff_id != base.layer.diff_id:
            raise _moved(base, made.packages)
        if made.layer.digest != base.layer.digest:
            raise BaseMovedError(
                f"the Debian base is the locked one, but packs to {made.layer.digest},\n"
                f"not to {base.layer.digest}",
                cause="the lock was written by a flbuild that compresses in another way",
            )
        return self._cache.path(base.layer.digest)

    def relist(self, base: LockedDebianBase, platform: str) -> LockedDebianBase:
        """The same base with the file lists of everything it carries."""
        inventory = read_tar(self.layer(base, platform))
        return base.model_copy(update={"inventory": inventory.distributions()})

    def _bootstrap(self, suite: str, packages: Sequence[str], platform: str) -> Bootstrap:
        if self._offline:
            raise HostError(
                f"the Debian base {suite} is not on this machine, and --offline forbids making it",
                remedy="run once without --offline",
            )
        architecture = platform.removeprefix("linux/")
        if host.machine() != _MACHINES[architecture]:
            raise HostError(
                f"a Debian base for {architecture} cannot be made on this machine ({host.machine()})",
                cause="the bootstrap runs programs of the base",
                remedy="run it on a machine of that architecture, or use an image as the base",
            )
        return Bootstrap(self._settings, suite, packages, architecture)

    def _make(self, bootstrap: Bootstrap, suite: str, packages: Sequence[str]) -> LockedDebianBase:
        try:
            with unnamed_folder(self._bases, suite) as workplace:
                tar = workplace / "root.tar"
                with self._progress.task(f"bootstrap Debian {suite}"):
                    bootstrap.run(tar)
                layer, inventory = self._pack(tar, workplace / "root.tar.gz")
        except OSError as error:
            raise HostError(
                f"the Debian base could not be written to {self._settings.cache_dir}",
                cause=str(error),
                remedy="make room, or set FLBUILD_CACHE_DIR to a larger disk",
            ) from error
        made = LockedDebianBase(
            suite=suite,
            requested=tuple(sorted(packages)),
            epoch=EPOCH,
            layer=layer,
            packages=inventory.packages,
            inventory=inventory.distributions(),
            glibc=inventory.glibc,
        )
        write_atomic(self._note(bootstrap), made.model_dump_json())
        return made

    def _pack(self, tar: Path, packed: Path) -> tuple[LockedLayer, Inventory]:
        with tar.open("rb") as source, packed.open("wb") as target:
            done = compress(source, target)
        path = self._cache.path(done.digest)
        path.parent.mkdir(parents=True, exist_ok=True)
        packed.replace(path)
        layer = LockedLayer(digest=done.digest, size=done.size, media_type=MEDIA_TYPE, diff_id=done.diff_id)
        return layer, read_tar(tar)

    def _recent(self, bootstrap: Bootstrap) -> LockedDebianBase | None:
        note = self._note(bootstrap)
        try:
            age = time.time() - note.stat().st_mtime
            made = LockedDebianBase.model_validate_json(note.read_bytes())
        except (OSError, ValidationError):
            return None
        whole = self._cache.verified(made.layer.digest, made.layer.size) is not None
        return made if whole and 0 <= age < RECENT else None

    def _note(self, bootstrap: Bootstrap) -> Path:
        return self._bases / f"{bootstrap.key}.json"


def _moved(base: LockedDebianBase, now: Sequence[DebianPackage]) -> BaseMovedError:
    """What Debian's archive has in place of the locked packages."""
    before = {(item.name, item.architecture): item.version for item in base.packages}
    after = {(item.name, item.architecture): item.version for item in now}
    lines = []
    for key in sorted(before.keys() | after.keys()):
        old, new = before.get(key), after.get(key)
        if old != new:
            lines.append(f"  {key[0]}: {old or 'absent'} -> {new or 'absent'}")
    if not lines:
        return BaseMovedError(
            "Debian's archive gives the locked packages, but the base has other bytes",
            cause="another version of mmdebstrap, dpkg or tar on this machine",
        )
    return BaseMovedError(
        f"Debian's archive has moved on since the {base.suite} base was locked:\n" + "\n".join(lines),
        cause="updates replace packages in the archive, and the old ones are removed",
    )
