"""A Debian base, bootstrapped from the signed archive by mmdebstrap so that its bytes repeat."""

from __future__ import annotations

import os
import platform as host
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from urllib.request import getproxies

from flbuild.base.inventory import Inventory, read_tar
from flbuild.build.oci.cache import MEDIA_TYPE, LayerCache
from flbuild.build.oci.compress import compress
from flbuild.errors import BaseMovedError, BuildError, HostError, UnreachableError
from flbuild.files import unnamed_folder
from flbuild.lock.model import DebianPackage, LockedDebianBase, LockedLayer
from flbuild.progress import Progress
from flbuild.recipe.model import DebianBase
from flbuild.settings import Settings

EPOCH = 1767225600
"""2026-01-01 00:00 UTC, in seconds: no file of the base is newer."""

_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}

_APT = ('Acquire::Languages "none"', 'APT::Install-Recommends "false"')

_DPKG = (
    "path-exclude=/usr/share/man/*",
    "path-exclude=/usr/share/locale/*",
    "path-exclude=/usr/share/doc/*",
    # Licences ask to stay with what they cover.
    "path-include=/usr/share/doc/*/copyright",
)

_HOOKS = (
    # What comes from this machine or tells when and where the base was made.
    'rm -rf "$1/etc/hostname" "$1/etc/resolv.conf"',
    'rm -rf "$1"/var/log/*.log "$1"/var/log/apt/* "$1/var/cache/ldconfig/aux-cache"',
    'rm -rf "$1"/var/cache/debconf/*-old "$1"/var/lib/dpkg/*-old',
    # Byte-code holds reference counts of the process that compiled it.
    'find "$1/usr" -name __pycache__ -prune -exec rm -rf {} +',
)

_NETWORK_SIGNS = (
    "Temporary failure resolving",
    "Could not connect",
    "Could not resolve",
    "Connection timed out",
)


class DebianBases:
    """Makes Debian bases; one is kept as a layer file in the cache."""

    def __init__(self, settings: Settings, progress: Progress) -> None:
        self._settings = settings
        self._cache = LayerCache(settings.cache_dir)
        self._progress = progress

    def lock(self, base: DebianBase, platform: str) -> LockedDebianBase:
        """The base as Debian's archive gives it now.

        Raises:
            HostError: mmdebstrap is missing, or this machine cannot make a base of that architecture.
            UnreachableError: the archive does not answer.
            BuildError: the bootstrap failed.
        """
        layer, inventory = self._make(base.debian, base.packages, platform)
        return LockedDebianBase(
            suite=base.debian,
            requested=tuple(sorted(base.packages)),
            epoch=EPOCH,
            layer=layer,
            packages=inventory.packages,
            inventory=inventory.distributions(),
            glibc=inventory.glibc,
        )

    def layer(self, base: LockedDebianBase, platform: str) -> Path:
        """The layer file of a locked base: from the cache, else made again and compared.

        Raises:
            BaseMovedError: the archive gives other packages now, or other bytes.
        """
        path = self._cache.verified(base.layer.digest, base.layer.size)
        if path is not None:
            return path
        made, inventory = self._make(base.suite, base.requested, platform)
        if made.diff_id != base.layer.diff_id:
            raise _moved(base, inventory.packages)
        if made.digest != base.layer.digest:
            raise BaseMovedError(
                f"the Debian base is the locked one, but packs to {made.digest}, not {base.layer.digest}",
                cause="the lock was written by a flbuild that compresses in another way",
                remedy="flbuild lock --refresh-base",
            )
        return self._cache.path(base.layer.digest)

    def relist(self, base: LockedDebianBase, platform: str) -> LockedDebianBase:
        """The same base with the file lists of everything it carries."""
        inventory = read_tar(self.layer(base, platform))
        return base.model_copy(update={"inventory": inventory.distributions()})

    def _make(self, suite: str, packages: Sequence[str], platform: str) -> tuple[LockedLayer, Inventory]:
        architecture = platform.removeprefix("linux/")
        if host.machine() != _MACHINES[architecture]:
            raise HostError(
                f"a Debian base for {architecture} cannot be made on this machine ({host.machine()})",
                cause="the bootstrap runs programs of the base",
                remedy="run it on a machine of that architecture, or use an image as the base",
            )
        with unnamed_folder(self._settings.cache_dir / "bases", suite) as workplace:
            tar = workplace / "root.tar"
            with self._progress.task(f"bootstrap Debian {suite}"):
                self._bootstrap(suite, packages, architecture, tar)
            packed = workplace / "root.tar.gz"
            with tar.open("rb") as source, packed.open("wb") as target:
                done = compress(source, target)
            inventory = read_tar(tar)
            path = self._cache.path(done.digest)
            path.parent.mkdir(parents=True, exist_ok=True)
            packed.replace(path)
        layer = LockedLayer(digest=done.digest, size=done.size, media_type=MEDIA_TYPE, diff_id=done.diff_id)
        return layer, inventory

    def _bootstrap(self, suite: str, packages: Sequence[str], architecture: str, tar: Path) -> None:
        program = shutil.which("mmdebstrap")
        if program is None:
            raise HostError(
                "mmdebstrap, which makes the Debian base, is not installed",
                remedy="apt-get install mmdebstrap",
            )
        command = [
            *(program, "--mode=auto", "--variant=apt", "--format=tar", "--components=main"),
            *("--skip=output/dev", f"--architectures={architecture}"),
            *((f"--include={','.join(sorted(packages))}",) if packages else ()),
            *(f"--aptopt={option}" for option in _APT),
            *(f"--dpkgopt={option}" for option in _DPKG),
            *(f"--customize-hook={hook}" for hook in _HOOKS),
            *(suite, str(tar)),
        ]
        log = self._settings.cache_dir / "logs" / f"base-{suite}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as stream, tempfile.TemporaryDirectory(prefix="flbuild-base-") as scratch:
            # The scratch folder is entered by the bootstrap's own user where root rights are mapped.
            Path(scratch).chmod(0o755)
            code = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                env=self._environment(scratch),
                umask=0o022,
                check=False,
            ).returncode
        if code:
            raise _failed(suite, log)

    def _environment(self, scratch: str) -> dict[str, str]:
        """Nothing of the caller's but where programs are and how the network is reached."""
        proxies = {f"{scheme}_proxy": url for scheme, url in getproxies().items() if "://" in url}
        if self._settings.proxy is not None:
            proxies |= dict.fromkeys(("http_proxy", "https_proxy"), self._settings.proxy.get_secret_value())
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": scratch,
            "TMPDIR": scratch,
            "SOURCE_DATE_EPOCH": str(EPOCH),
            "LC_ALL": "C",
            "TZ": "UTC",
            **proxies,
        }


def _moved(base: LockedDebianBase, now: Sequence[DebianPackage]) -> BaseMovedError:
    """What Debian's archive has in place of the locked packages."""
    before = {(item.name, item.architecture): item.version for item in base.packages}
    after = {(item.name, item.architecture): item.version for item in now}
    lines = []
    for key in sorted(before.keys() | after.keys()):
        old, new = before.get(key), after.get(key)
        if old != new:
            lines.append(f"  {key[0]}: {old or 'absent'} -> {new or 'absent'}")
    remedy = "flbuild lock NAME --refresh-base locks the base as it is now; images then get a new digest"
    if not lines:
        return BaseMovedError(
            "Debian's archive gives the locked packages, but the base has other bytes",
            cause="another version of mmdebstrap, dpkg or tar on this machine",
            remedy=remedy,
        )
    return BaseMovedError(
        f"Debian's archive has moved on since the {base.suite} base was locked:\n" + "\n".join(lines),
        cause="updates replace packages in the archive, and the old ones are removed",
        remedy=remedy,
    )


def _failed(suite: str, log: Path) -> BuildError | UnreachableError:
    text = log.read_text(encoding="utf-8", errors="replace")
    tail = "\n".join(f"  | {line}" for line in text.rstrip().splitlines()[-12:])
    if any(sign in text for sign in _NETWORK_SIGNS):
        return UnreachableError(
            f"Debian's archive could not be reached for {suite}\n{tail}",
            remedy="check the network, or set proxy in flbuild.toml",
            log=log,
        )
    return BuildError(f"the Debian base {suite} could not be bootstrapped\n{tail}", log=log)
