"""Bases for the assembler: a layer that was made here, or a config from a registry."""

from __future__ import annotations

from pathlib import Path

from flbuild.base.debian import DebianBases
from flbuild.base.image import ImageBases
from flbuild.lock.model import LockedDebianBase, LockedImageBase
from flbuild.progress import Progress
from flbuild.registry.client import RegistryClient
from flbuild.settings import Settings


class BaseSource:
    """What `flbuild.build.oci.assemble.BaseSource` asks for."""

    def __init__(
        self,
        settings: Settings,
        progress: Progress,
        client: RegistryClient,
        platform: str,
        *,
        offline: bool = False,
    ) -> None:
        self._debian = DebianBases(settings, progress, offline=offline)
        self._images = ImageBases(settings, progress, client)
        self._platform = platform

    def debian_layer(self, base: LockedDebianBase) -> Path:
        """The layer file of a Debian base, bootstrapped if it is not in the cache.

        Raises:
            BaseMovedError: Debian's archive has moved on since it was locked.
        """
        return self._debian.layer(base, self._platform)

    def image_config(self, base: LockedImageBase) -> bytes:
        """The config of a registry base."""
        return self._images.config(base)
