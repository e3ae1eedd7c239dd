"""Credentials for a registry, and the token flow that most of them use."""

from __future__ import annotations

import base64
import binascii
import json
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import requests
from pydantic import SecretStr

from flbuild.errors import RemoteRefusedError
from flbuild.progress import Progress
from flbuild.registry.reference import DOCKER_HUB
from flbuild.settings import Settings, registry_variable

_HUB_KEYS = ("https://index.docker.io/v1/", "index.docker.io", "docker.io", "registry-1.docker.io")
_CHALLENGE = re.compile(r'([a-zA-Z]+)="([^"]*)"')
_TOKEN_USER = "<token>"  # noqa: S105 - the name by which helpers mark an identity token
_HELPER_SECONDS = 20


@dataclass(frozen=True)
class Credential:
    """A user and a password, or an identity token when `user` is empty."""

    user: str
    secret: SecretStr


class Credentials:
    """Finds the credential of a host: our settings first, then docker's configuration.

    Args:
        environ: for DOCKER_CONFIG and for running credential helpers.
    """

    def __init__(self, settings: Settings, progress: Progress, environ: Mapping[str, str]) -> None:
        self._settings = settings
        self._progress = progress
        self._environ = environ

    def find(self, host: str) -> Credential | None:
        """The credential of `host`, or None for an anonymous visit.

        A credential helper that is missing or fails is told and passed over: what is public needs none.
        """
        own = self._settings.registry(host)
        if own.username is not None and own.password is not None:
            return Credential(own.username.get_secret_value(), own.password)
        config = self._docker_config()
        keys = _HUB_KEYS if host == DOCKER_HUB else (host, f"https://{host}")
        helper = next(
            (config.get("credHelpers", {})[key] for key in keys if key in config.get("credHelpers", {})),
            config.get("credsStore"),
        )
        if helper:
            for key in keys:
                found = self._ask_helper(str(helper), key)
                if found is not None:
                    return found
        auths = config.get("auths", {})
        return next((found for key in keys if (found := _decode(auths.get(key)))), None)

    def _docker_config(self) -> dict[str, dict[str, str]]:
        folder = self._environ.get("DOCKER_CONFIG") or Path(self._environ.get("HOME", "/")) / ".docker"
        try:
            content = json.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            self._progress.warn(f"docker's config.json is not used: {error}")
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
            return None
        try:
            content = json.loads(done.stdout)
            user = "" if content["Username"] == _TOKEN_USER else content["Username"]
            return Credential(user, SecretStr(content["Secret"]))
        except (ValueError, KeyError, TypeError):
            self._progress.warn(f"{command} gave no credential that can be read; going on without it")
            return None


class Authorizer:
    """Answers a registry's challenge and remembers the answer, per scope.

    Args:
        key: the host as references name it, which settings and docker's configuration use.
    """

    def __init__(self, session: requests.Session, key: str, credentials: Credentials) -> None:
        self._session = session
        self._key = key
        self._credentials = credentials
        self._headers: dict[str, str] = {}

    def header(self, scope: str) -> dict[str, str]:
        """The header for a request, empty before the registry has asked for one."""
        value = self._headers.get(scope) or self._headers.get("")
        return {"Authorization": value} if value else {}

    def answer(self, challenge: str, scope: str) -> None:
        """Get what a `WWW-Authenticate` header asks for.

        Raises:
            RemoteRefusedError: there is no credential, or it is not accepted.
        """
        scheme, _, rest = challenge.partition(" ")
        if scheme.lower() == "basic":
            self._headers[""] = self._basic()
        elif scheme.lower() == "bearer":
            self._headers[scope] = f"Bearer {self._token(dict(_CHALLENGE.findall(rest)), scope)}"
        else:
            raise self._refused(f"it asks for '{scheme or 'nothing known'}' authentication")

    def _basic(self) -> str:
        credential = self._credentials.find(self._key)
        if credential is None:
            raise self._refused("it asks for a user and a password, and none is configured")
        pair = f"{credential.user}:{credential.secret.get_secret_value()}"
        return f"Basic {base64.b64encode(pair.encode()).decode()}"

    def _token(self, challenge: dict[str, str], scope: str) -> str:
        """A bearer token, anonymous where there is no credential (distribution "Token Authentication")."""
        realm = challenge.get("realm")
        if not realm:
            raise self._refused("its challenge names no realm")
        credential = self._credentials.find(self._key)
        wanted = {"scope": scope or challenge.get("scope", ""), "service": challenge.get("service", "")}
        wanted = {name: value for name, value in wanted.items() if value}
        if credential is not None and not credential.user:
            form = {
                **wanted,
                "grant_type": "refresh_token",
                "client_id": "flbuild",
                "refresh_token": credential.secret.get_secret_value(),
            }
            response = self._session.post(realm, data=form, timeout=60)
        else:
            auth = (credential.user, credential.secret.get_secret_value()) if credential else None
            response = self._session.get(realm, params=wanted, auth=auth, timeout=60)
        if response.status_code >= 400:
            who = f"user '{credential.user}'" if credential and credential.user else "an anonymous visit"
            raise self._refused(f"its token server refuses {who} (status {response.status_code})")
        content = response.json()
        token = content.get("token") or content.get("access_token")
        if not token:
            raise self._refused("its token server gave no token")
        return str(token)

    def _refused(self, cause: str) -> RemoteRefusedError:
        return RemoteRefusedError(
            f"{self._key} refuses access",
            cause=cause,
            remedy=f"docker login {self._key}, or set {registry_variable(self._key, 'USERNAME')} and "
            f"{registry_variable(self._key, 'PASSWORD')}",
        )


def _decode(entry: object) -> Credential | None:
    """An entry of docker's `auths`."""
    if not isinstance(entry, dict):
        return None
    if entry.get("identitytoken"):
        return Credential("", SecretStr(str(entry["identitytoken"])))
    try:
        user, _, password = base64.b64decode(str(entry.get("auth", ""))).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return Credential(user, SecretStr(password)) if user else None
