"""Requests to one registry host: redirected, authenticated, counted, with errors by class."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import IO, Any
from urllib.parse import urljoin

import requests
from requests.adapters import HTTPAdapter

from flbuild import __version__
from flbuild.errors import RemoteRefusedError, UnreachableError
from flbuild.index.http import TIMEOUT, retries
from flbuild.progress import Progress
from flbuild.registry.auth import Authorizer, Credentials
from flbuild.registry.reference import DOCKER_HUB
from flbuild.settings import Settings, registry_variable
from flbuild.settings.model import is_loopback

_HUB_HOST = "registry-1.docker.io"

Body = bytes | IO[bytes] | None


class Transport:
    """One registry host, as references name it. Safe to share between threads.

    `sent` counts the bytes of request bodies, `received` those of response bodies.
    """

    def __init__(self, host: str, settings: Settings, progress: Progress, environ: Mapping[str, str]) -> None:
        self.host = host
        own = settings.registry(host)
        place = own.mirror or (_HUB_HOST if host == DOCKER_HUB else host)
        self.place, _, self.prefix = place.partition("/")
        plain = own.plain_http or (own.mirror is not None and is_loopback(self.place))
        self._root = f"{'http' if plain else 'https'}://{self.place}/v2/"
        self._session = requests.Session()
        self._session.headers["User-Agent"] = f"flbuild/{__version__}"
        adapter = HTTPAdapter(pool_maxsize=max(settings.jobs, 8), max_retries=retries(0.5))
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, adapter)
        if is_loopback(self.place):
            self._session.trust_env = False
        bundle = own.ca_bundle or settings.ca_bundle
        self._verify = None if bundle is None else str(bundle)
        proxy = None if settings.proxy is None else settings.proxy.get_secret_value()
        self._proxies = None if proxy is None or is_loopback(self.place) else {"http": proxy, "https": proxy}
        self._authorizer = Authorizer(self._session, host, Credentials(settings, progress, environ))
        self._lock = threading.Lock()
        self.sent = 0
        self.received = 0

    def repository(self, name: str) -> str:
        """A repository's name where requests really go."""
        return f"{self.prefix}/{name}" if self.prefix else name

    def request(
        self,
        method: str,
        path: str,
        *,
        scope: str,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, str] | None = None,
        data: Body = None,
        size: int = 0,
        stream: bool = False,
    ) -> requests.Response:
        """One response, of any status but 401, 403 and 429.

        Args:
            path: below `/v2/`, or an absolute URL that the registry gave.
            scope: what a token must allow, for example `repository:a/b:pull`.
            size: bytes of `data`.

        Raises:
            RemoteRefusedError: the registry asks for other credentials, or for patience.
            UnreachableError: it does not answer.
        """
        url = urljoin(self._root, path)
        response = self._send(method, url, scope, headers, params, data, size, stream)
        if response.status_code == 401:
            response.close()
            with self._lock:
                self._challenge(response, scope)
            if hasattr(data, "seek"):
                data.seek(0)  # type: ignore[union-attr]
            response = self._send(method, url, scope, headers, params, data, size, stream)
        self._refuse(response, url)
        return response

    def count_received(self, amount: int) -> None:
        """Count bytes that were read from a streamed response."""
        with self._lock:
            self.received += amount

    def unreachable(self, error: Exception | str) -> UnreachableError:
        """The error for a host that does not answer."""
        cause = error if isinstance(error, str) else _short(error)
        return UnreachableError(
            f"registry {self.host} cannot be reached"
            + (f" (asked at {self.place})" if self.place != self.host else ""),
            cause=cause,
            remedy=f"check the network, or set {registry_variable(self.host)} to a mirror",
        )

    def _send(
        self,
        method: str,
        url: str,
        scope: str,
        headers: Mapping[str, str] | None,
        params: Mapping[str, str] | None,
        data: Body,
        size: int,
        stream: bool,
    ) -> requests.Response:
        # A storage server that a registry redirects to must not see the registry's credential.
        own = url.startswith(self._root.removesuffix("v2/"))
        try:
            response = self._session.request(
                method,
                url,
                headers={**(self._authorizer.header(scope) if own else {}), **(headers or {})},
                params=params,
                data=data,
                stream=stream,
                timeout=TIMEOUT,
                verify=self._verify,
                proxies=self._proxies,
            )
        except requests.RequestException as error:
            raise self.unreachable(error) from error
        with self._lock:
            self.sent += size
            if not stream:
                self.received += len(response.content)
        return response

    def _challenge(self, response: requests.Response, scope: str) -> None:
        try:
            self._authorizer.answer(response.headers.get("WWW-Authenticate", ""), scope)
        except (requests.RequestException, ValueError) as error:
            raise self.unreachable(error) from error

    def _refuse(self, response: requests.Response, url: str) -> None:
        status = response.status_code
        if status in (401, 403):
            raise RemoteRefusedError(
                f"registry {self.host} refuses {response.request.method} {_path(url)} (status {status})",
                cause=error_text(response) or "the credential does not allow it, or the image does not exist",
                remedy=f"docker login {self.host}, or set {registry_variable(self.host, 'USERNAME')} and "
                f"{registry_variable(self.host, 'PASSWORD')}",
            )
        if status == 429:
            wait = response.headers.get("Retry-After")
            raise RemoteRefusedError(
                f"registry {self.host} limits how often it may be asked",
                cause=error_text(response),
                remedy=(f"retry in {wait} s" if wait else "retry later") + ", log in, or use a mirror: set "
                f"{registry_variable(self.host)}",
            )


def error_text(response: requests.Response) -> str | None:
    """What a registry's error document says (distribution specification, "Error Codes")."""
    try:
        errors: list[dict[str, Any]] = response.json()["errors"]
        return "; ".join(f"{error['code']}: {error.get('message', '')}".strip(": ") for error in errors)
    except (ValueError, KeyError, TypeError):
        return None


def error_codes(response: requests.Response) -> frozenset[str]:
    """The codes of a registry's error document."""
    try:
        return frozenset(error["code"] for error in response.json()["errors"])
    except (ValueError, KeyError, TypeError):
        return frozenset()


def _path(url: str) -> str:
    return url.partition("?")[0].partition("/v2/")[2]


def _short(error: Exception) -> str:
    """The innermost reason, without the object addresses that libraries print."""
    reason: Any = error
    while True:
        inner = getattr(reason, "reason", None) or next(iter(reason.args), None)
        if not isinstance(inner, Exception):
            return str(reason).rpartition(": ")[2] or type(error).__name__
        reason = inner
