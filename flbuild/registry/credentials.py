"""Credentials of a registry: our settings first, then docker's configuration and its credential helpers."""

from __future__ import annotations

import base64
import binascii
import json
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from flbuild.progress import Progress
from flbuild.registry.reference import DOCKER_HUB
from flbuild.settings import Settings

_HUB_NAMES = frozenset({"docker.io", "index.docker.io", "registry-1.docker.io"})
_HUB_KEY = "https://index.docker.io/v1/"
_TOKEN_USER = "<token>"  # noqa: S105 - the name by which helpers mark an identity token
_HELPER_SECONDS = 20


@dataclass(frozen=True)
class Credential:
    """A user and a password, or an identity token when `user` is empty."""

    user: str
    secret: SecretStr


class Credentials:
    """Finds the credential of a host, once per host. Safe to share between threads.

    Args:
        environ: for DOCKER_CONFIG and for running credential helpers.
    """

    def __init__(self, settings: Settings, progress: Progress, environ: Mapping[str, str]) -> None:
        self._settings = settings
        self._progress = progress
        self._environ = environ
        self._found: dict[str, Credential | None] = {}
        self._lock = threading.Lock()

    def find(self, host: str) -> Credential | None:
        """The credential of `host`, or None for an anonymous visit.

        A credential helper that is missing or fails is told and passed over: what is public needs none.
        """
        with self._lock:
            if host not in self._found:
                self._found[host] = self._look(host)
            return self._found[host]

    def _look(self, host: str) -> Credential | None:
        own = self._settings.registry(host)
        if own.username is not None and own.password is not None:
            return Credential(own.username.get_secret_value(), own.password)
        mirror = (own.mirror or host).partition("/")[0]
        if mirror != host:
            # A login is for the host that it names, and the mirror is another one.
            return self._look(mirror)
        config = self._docker_config()
        helpers = {_host_of(key): name for key, name in _table(config, "credHelpers").items()}
        helper = helpers.get(host) or config.get("credsStore")
        if isinstance(helper, str) and helper:
            found = self._ask_helper(helper, _HUB_KEY if host == DOCKER_HUB else host)
            if found is not None:
                return found
        entries = _table(config, "auths").items()
        return next(
            (found for key, entry in entries if _host_of(key) == host and (found := _decode(entry))), None
        )

    def _docker_config(self) -> dict[str, Any]:
        folder = self._environ.get("DOCKER_CONFIG") or Path(self._environ.get("HOME", "/")) / ".docker"
        try:
            content = json.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except (OSError, ValueError) as error:
            # A parser's message quotes no content; the file holds passwords.
            self._progress.warn(f"docker's config.json in {folder} is not used: {type(error).__name__}")
            return {}
        return content if isinstance(content, dict) else {}

    def _ask_helper(self, helper: str, key: str) -> Credential | None:
        command = f"docker-credential-{helper}"
        try:
            done = subprocess.run(
                [command, "get"],
                input=key,
                capture_output=True,
                text=True,
                timeout=_HELPER_SECONDS,
                env=dict(self._environ),
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            self._progress.warn(f"{command} cannot be asked ({type(error).__name__}); going on without it")
            return None
        if done.returncode:
            # Also how a helper says that it knows no credential, which is no news.
            return None
        try:
            content = json.loads(done.stdout)
            user = "" if content["Username"] == _TOKEN_USER else str(content["Username"])
            return Credential(user, SecretStr(str(content["Secret"])))
        except (ValueError, KeyError, TypeError):
            self._progress.warn(f"{command} gave no credential that can be read; going on without it")
            return None


def _table(config: dict[str, Any], key: str) -> dict[str, Any]:
    found = config.get(key)
    return found if isinstance(found, dict) else {}


def _host_of(key: str) -> str:
    """The host a key of docker's configuration is about: some are written as URLs, as old versions did."""
    host = key.partition("://")[2] if "://" in key else key
    host = host.partition("/")[0]
    return DOCKER_HUB if host in _HUB_NAMES else host


def _decode(entry: object) -> Credential | None:
    """An entry of docker's `auths`."""
    if not isinstance(entry, dict):
        return None
    if entry.get("identitytoken"):
        return Credential("", SecretStr(str(entry["identitytoken"])))
    if entry.get("username") and entry.get("password"):
        return Credential(str(entry["username"]), SecretStr(str(entry["password"])))
    try:
        user, _, password = base64.b64decode(str(entry.get("auth", ""))).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return Credential(user, SecretStr(password)) if user else None
