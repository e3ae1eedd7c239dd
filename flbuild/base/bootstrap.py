"""A root file system from Debian's signed archive, made by mmdebstrap so that its bytes repeat."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from urllib.request import getproxies

from flbuild.errors import BuildError, FlbuildError, HostError, RecipeError, UnreachableError
from flbuild.files import sha256_bytes, unnamed_folder
from flbuild.settings import Settings

EPOCH = 1767225600
"""2026-01-01 00:00 UTC, in seconds: no file of the base is newer."""

_APT = ('Acquire::Languages "none"', 'APT::Install-Recommends "false"')

_LOCAL_APT = "Acquire::https::CaInfo"
"""An option about this machine: it serves the bootstrap and is taken out of the base."""

_DPKG = (
    "path-exclude=/usr/share/man/*",
    "path-exclude=/usr/share/locale/*",
    "path-exclude=/usr/share/doc/*",
    # Licences ask to stay with what they cover.
    "path-include=/usr/share/doc/*/copyright",
)

_HOOKS = (
    # What comes from this machine or tells when, where and from which mirror the base was made.
    'rm -rf "$1/etc/hostname" "$1/etc/resolv.conf"',
    'rm -rf "$1/etc/apt/sources.list" "$1"/etc/apt/sources.list.d/*',
    f'sed -i "/^{_LOCAL_APT}/d" "$1/etc/apt/apt.conf.d/99mmdebstrap"',
    'rm -rf "$1"/var/log/*.log "$1"/var/log/apt/* "$1/var/cache/ldconfig/aux-cache"',
    'rm -rf "$1"/var/cache/debconf/*-old "$1"/var/lib/dpkg/*-old',
    # Packages compile in the order of their installation, which leaves its traces; this is one order. Files
    # that are no Python of this version are passed over, as the packages themselves do.
    'find "$1/usr" -name __pycache__ -prune -exec rm -rf {} +',
    (
        'if [ -x "$1/usr/bin/python3" ]; then chroot "$1" env -i PATH=/usr/bin PYTHONHASHSEED=0 python3 -B '
        '-m compileall -q --invalidation-mode unchecked-hash $(cd "$1" && ls -d usr/lib/python3*) || true; fi'
    ),
)

_NETWORK_SIGNS = (
    "Temporary failure resolving",
    "Could not connect",
    "Could not resolve",
    "Connection timed out",
    "Connection failed",
    "Unable to connect",
)

_HOST_SIGNS = {
    "No space left on device": "make room in the folder for temporary files (TMPDIR), or set TMPDIR",
    "NO_PUBKEY": "apt-get install debian-archive-keyring",
    "unable to find a suitable mode": "run it as root, or apt-get install uidmap and fill /etc/subuid",
    "unable to unshare": "run it as root, or allow user namespaces (sysctl kernel.unprivileged_userns_clone)",
    "newuidmap": "apt-get install uidmap, and give the user a range in /etc/subuid and /etc/subgid",
}
"""What a log says about this machine, and the way out."""


class Bootstrap:
    """One base to make: a suite, packages beyond the minimal system, Debian's name of an architecture."""

    def __init__(self, settings: Settings, suite: str, packages: Sequence[str], architecture: str) -> None:
        self._settings = settings
        self._suite = suite
        self._arguments = (
            *("--mode=auto", "--variant=apt", "--format=tar", "--components=main"),
            *("--skip=output/dev", f"--architectures={architecture}"),
            *((f"--include={','.join(sorted(packages))}",) if packages else ()),
            *(f"--aptopt={option}" for option in _APT),
            *(f"--dpkgopt={option}" for option in _DPKG),
            *(f"--customize-hook={hook}" for hook in _HOOKS),
        )

    @property
    def key(self) -> str:
        """Names everything that decides what is made, but for the state of the archive."""
        parts = (self._suite, *self._arguments, *self._settings.debian_sources)
        return sha256_bytes("\0".join(parts).encode())

    def run(self, tar: Path) -> None:
        """Write the root file system to `tar`.

        Raises:
            HostError: mmdebstrap is missing, or cannot work on this machine.
            UnreachableError: the archive does not answer.
            RecipeError: there is no such suite or package.
            BuildError: it failed otherwise.
        """
        program = shutil.which("mmdebstrap")
        if program is None:
            raise HostError(
                "mmdebstrap, which makes the Debian base, is not installed",
                remedy="apt-get install mmdebstrap",
            )
        bundle = self._settings.ca_bundle
        local = () if bundle is None else (f'--aptopt={_LOCAL_APT} "{bundle}"',)
        command = [program, *self._arguments, *local, self._suite, str(tar), *self._settings.debian_sources]
        log = self._settings.cache_dir / "logs" / f"base-{self._suite}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as stream, unnamed_folder(_scratch(), "flbuild-base") as scratch:
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
            raise _failed(self._suite, log)

    def _environment(self, scratch: Path) -> dict[str, str]:
        """Nothing of the caller's but where programs are and how the network is reached."""
        proxies = {f"{scheme}_proxy": url for scheme, url in getproxies().items() if "://" in url}
        if self._settings.proxy is not None:
            proxies |= dict.fromkeys(("http_proxy", "https_proxy"), self._settings.proxy.get_secret_value())
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(scratch),
            "TMPDIR": str(scratch),
            "SOURCE_DATE_EPOCH": str(EPOCH),
            "LC_ALL": "C",
            "TZ": "UTC",
            **proxies,
        }


def _scratch() -> Path:
    """Not in the cache: where root rights are mapped, another user enters it, who may not enter a home."""
    return Path(tempfile.gettempdir())


def _failed(suite: str, log: Path) -> FlbuildError:
    """Why a bootstrap failed, by what its log says."""
    text = log.read_text(encoding="utf-8", errors="replace")
    tail = "\n".join(f"  | {line}" for line in text.rstrip().splitlines()[-12:])
    if any(sign in text for sign in _NETWORK_SIGNS):
        return UnreachableError(
            f"Debian's archive could not be reached for {suite}\n{tail}",
            remedy="check the network, or set proxy or [debian] sources in flbuild.toml",
            log=log,
        )
    for sign, remedy in _HOST_SIGNS.items():
        if sign in text:
            return HostError(
                f"this machine cannot bootstrap the Debian base {suite}\n{tail}", remedy=remedy, log=log
            )
    if "does not have a Release file" in text:
        return RecipeError(
            f"Debian's archive has no suite '{suite}'\n{tail}",
            remedy="correct base.debian in the recipe; suites that are archived need [debian] sources",
            log=log,
        )
    if absent := re.findall(r"Unable to locate package (\S+)", text):
        return RecipeError(
            f"Debian {suite} has no package {', '.join(sorted(set(absent)))}",
            remedy="correct base.packages in the recipe",
            log=log,
        )
    return BuildError(f"the Debian base {suite} could not be bootstrapped\n{tail}", log=log)
