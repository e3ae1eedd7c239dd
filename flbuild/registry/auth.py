"""The answer to a registry's challenge: basic, or the token flow that most of them use."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from typing import Any, Protocol
from urllib.parse import urlsplit

import requests

from flbuild.errors import RemoteRefusedError
from flbuild.registry.credentials import Credential, Credentials
from flbuild.settings import registry_variable
from flbuild.settings.model import is_loopback

_PARAMETER = re.compile(r'([a-zA-Z_]+)=(?:"([^"]*)"|([^\s,"]+))')
_CLIENT = "flbuild"


class Send(Protocol):
    """One HTTP request with the registry's certificates and proxy, but without its credential."""

    def __call__(self, method: str, url: str, **arguments: Any) -> requests.Response: ...


class TokenServerError(Exception):
    """A token server that does not work, as opposed to one that says no."""


class Authorizer:
    """Answers challenges and remembers the answers, per scope.

    Args:
        host: as references name it, which settings and docker's configuration use.
        plain: whether the registry itself is asked over http.
    """

    def __init__(self, host: str, credentials: Credentials, send: Send, *, plain: bool) -> None:
        self._host = host
        self._credentials = credentials
        self._send = send
        self._plain = plain
        self._basic: str | None = None
        self._tokens: dict[tuple[str, ...], str] = {}

    def header(self, scopes: Sequence[str]) -> str | None:
        """The Authorization header of a request, None before the registry has asked for one."""
        return self._tokens.get(tuple(scopes)) or self._basic

    def answer(self, challenge: str, scopes: Sequence[str]) -> None:
        """Get what a `WWW-Authenticate` header asks for (RFC 9110, distribution "Token Authentication").

        Raises:
            RemoteRefusedError: there is no credential, or it is not accepted.
            TokenServerError, requests.RequestException: the token server does not work.
        """
        bearer = re.search(r"\bbearer\s", challenge, re.IGNORECASE)
        if bearer is not None:
            parameters = {
                key.lower(): quoted or plain
                for key, quoted, plain in _PARAMETER.findall(challenge[bearer.end() :])
            }
            self._tokens[tuple(scopes)] = f"Bearer {self._token(parameters, scopes)}"
        elif re.search(r"\bbasic\b", challenge, re.IGNORECASE):
            self._basic = self._basic_header()
        else:
            raise self.refused(
                f"it asks for '{challenge.partition(' ')[0] or 'nothing known'}' authentication"
            )

    def refused(self, cause: str) -> RemoteRefusedError:
        """The error for a credential that is missing or not enough."""
        return RemoteRefusedError(
            f"registry {self._host} refuses access",
            cause=cause,
            remedy=f"docker login {self._host}, or set {registry_variable(self._host, 'USERNAME')} and "
            f"{registry_variable(self._host, 'PASSWORD')}",
        )

    def _basic_header(self) -> str:
        credential = self._credentials.find(self._host)
        if credential is None or not credential.user:
            raise self.refused("it asks for a user and a password, and none is configured")
        pair = f"{credential.user}:{credential.secret.get_secret_value()}"
        return f"Basic {base64.b64encode(pair.encode()).decode()}"

    def _token(self, challenge: dict[str, str], scopes: Sequence[str]) -> str:
        """A bearer token, anonymous where there is no credential."""
        realm = challenge.get("realm", "")
        if urlsplit(realm).scheme not in ("http", "https"):
            raise self.refused("its challenge names no token server")
        credential = self._credentials.find(self._host)
        if credential is not None and self._would_leak(realm):
            raise self.refused("its token server is asked over plain http, which would show the password")
        response = self._ask(realm, challenge.get("service", ""), scopes, credential)
        if response.status_code == 429:
            raise self.refused("its token server limits how often it may be asked")
        if response.status_code in (401, 403):
            who = "the credential" if credential else "an anonymous visit"
            raise self.refused(f"its token server refuses {who} (status {response.status_code})")
        if response.status_code >= 400:
            raise TokenServerError(f"its token server answers with status {response.status_code}")
        try:
            content = response.json()
            return str(content.get("token") or content["access_token"])
        except (ValueError, KeyError, AttributeError):
            raise TokenServerError("its token server gave no token") from None

    def _ask(
        self, realm: str, service: str, scopes: Sequence[str], credential: Credential | None
    ) -> requests.Response:
        if credential is not None and not credential.user:
            form = {
                "grant_type": "refresh_token",
                "client_id": _CLIENT,
                "refresh_token": credential.secret.get_secret_value(),
                "service": service,
                "scope": " ".join(scopes),
            }
            return self._send("POST", realm, data=form)
        auth = (credential.user, credential.secret.get_secret_value()) if credential else None
        params = [*([("service", service)] if service else []), *(("scope", scope) for scope in scopes)]
        return self._send("GET", realm, params=params, auth=auth)

    def _would_leak(self, realm: str) -> bool:
        place = urlsplit(realm)
        return place.scheme == "http" and not self._plain and not is_loopback(place.netloc)
