"""Requests to one registry host: redirected, authenticated, counted, with errors by class."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import SplitResult, urljoin, urlsplit

import requests
from requests.adapters import HTTPAdapter
from requests.auth import AuthBase

from flbuild import __version__
from flbuild.errors import RemoteRefusedError, UnreachableError
from flbuild.index.http import TIMEOUT, retries
from flbuild.registry.auth import Authorizer, TokenServerError
from flbuild.registry.credentials import Credentials
from flbuild.registry.reference import DOCKER_HUB
from flbuild.settings import Settings, registry_variable
from flbuild.settings.model import is_loopback

_HUB_HOST = "registry-1.docker.io"

_FINISH_TIMEOUT = (TIMEOUT[0], 900.0)
"""Seconds for a PUT: before it answers the one that completes a large upload, a registry hashes all of it."""

_REPEATABLE = ("GET", "HEAD", "POST", "PUT")
"""An upload that was opened twice or a manifest that was put twice does no harm; a PATCH adds bytes."""


class Transport:
    """One registry host, as references name it. Safe to share between threads.

    `sent` counts the bytes of request bodies, repeated ones too, `received` those of response bodies.
    """

    def __init__(self, host: str, settings: Settings, credentials: Credentials, *, wait: float) -> None:
        self.host = host
        own = settings.registry(host)
        self.place, _, self._prefix = (own.mirror or (_HUB_HOST if host == DOCKER_HUB else host)).partition(
            "/"
        )
        loopback = is_loopback(self.place)
        plain = own.plain_http or (own.mirror is not None and loopback)
        self._root = f"{'http' if plain else 'https'}://{self.place}/v2/"
        self._session = requests.Session()
        self._session.headers.update({"User-Agent": f"flbuild/{__version__}", "Accept-Encoding": "identity"})
        # How long a registry wants to be left alone may be hours: that is told, not slept through.
        policy = retries(wait).new(allowed_methods=_REPEATABLE, respect_retry_after_header=False)
        adapter = HTTPAdapter(pool_maxsize=max(settings.jobs, 8), max_retries=policy)
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, adapter)
        if loopback:
            self._session.trust_env = False
        # Given with each request: on the session they would lose against variables of the environment.
        bundle = own.ca_bundle or settings.ca_bundle
        self._verify = None if bundle is None else str(bundle)
        proxy = None if settings.proxy is None or loopback else settings.proxy.get_secret_value()
        self._proxies = None if proxy is None else {"http": proxy, "https": proxy}
        self._authorizer = Authorizer(host, credentials, self._raw, plain=plain)
        self._lock = threading.Lock()
        self.sent = 0
        self.received = 0

    def repository(self, name: str) -> str:
        """A repository's name where requests really go."""
        return f"{self._prefix}/{name}" if self._prefix else name

    def request(
        self,
        method: str,
        path: str,
        *,
        scopes: Sequence[str],
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, str] | None = None,
        data: bytes | None = None,
        stream: bool = False,
    ) -> requests.Response:
        """One response, of any status but 401, 403 and 429.

        Args:
            path: below `/v2/`, or an absolute URL that the registry gave.
            scopes: what a token must allow, for example `repository:a/b:pull`.
            stream: leave the body to be read and counted by the caller.

        Raises:
            RemoteRefusedError: the registry asks for other credentials, or for patience.
            UnreachableError: it does not answer.
        """
        url = urljoin(self._root, path)
        arguments = {"headers": headers, "params": params, "stream": stream}
        used, response = self._authorized(method, url, scopes, data, arguments)
        if response.status_code == 401 and "WWW-Authenticate" in response.headers:
            response.close()
            self._challenge(response.headers["WWW-Authenticate"], scopes, used)
            _, response = self._authorized(method, url, scopes, data, arguments)
        self._refuse(response)
        if not stream:
            self.count_received(len(response.content))
        return response

    def count_received(self, amount: int) -> None:
        """Count bytes that were read from a streamed response."""
        with self._lock:
            self.received += amount

    def unreachable(self, error: Exception | str) -> UnreachableError:
        """The error for a host that does not answer as a registry does."""
        cause = error if isinstance(error, str) else _innermost(error)
        where = f" (asked at {self.place})" if self.place != self.host else ""
        remedy = f"check the network, or set {registry_variable(self.host)} to a mirror"
        if "WRONG_VERSION_NUMBER" in cause.upper().replace(" ", "_"):
            remedy = (
                f'if it speaks plain http, set plain-http = true in [registry."{self.host}"] of flbuild.toml'
            )
        elif "CERTIFICATE_VERIFY_FAILED" in cause.upper().replace(" ", "_"):
            remedy = (
                "name the certificates that it is signed with: ca-bundle in flbuild.toml, or SSL_CERT_FILE"
            )
        return UnreachableError(f"registry {self.host} cannot be reached{where}", cause=cause, remedy=remedy)

    def _authorized(
        self,
        method: str,
        url: str,
        scopes: Sequence[str],
        data: bytes | None,
        arguments: Mapping[str, Any],
    ) -> tuple[str | None, requests.Response]:
        """The Authorization header that was used, and the response."""
        # A storage server that a registry points to must not see the registry's credential.
        header = self._authorizer.header(scopes) if self._is_own(url) else None
        body = _CountedBody(data, self._count_sent) if data else data
        try:
            return header, self._raw(method, url, data=body, auth=_Header(header), **arguments)
        except OSError as error:
            # Every RequestException is one, and so is a missing file of certificates.
            raise self.unreachable(error) from error

    def _raw(self, method: str, url: str, **arguments: Any) -> requests.Response:
        return self._session.request(
            method,
            url,
            timeout=_FINISH_TIMEOUT if method == "PUT" else TIMEOUT,
            verify=self._verify,
            proxies=self._proxies,
            **{**arguments, "auth": arguments.get("auth") or _Header(None)},
        )

    def _count_sent(self, amount: int) -> None:
        with self._lock:
            self.sent += amount

    def _is_own(self, url: str) -> bool:
        return _origin(urlsplit(url)) == _origin(urlsplit(self._root))

    def _challenge(self, challenge: str, scopes: Sequence[str], used: str | None) -> None:
        with self._lock:
            if self._authorizer.header(scopes) != used:
                # Another thread has answered meanwhile.
                return
            try:
                self._authorizer.answer(challenge, scopes)
            except (OSError, TokenServerError) as error:
                raise self.unreachable(error) from error

    def _refuse(self, response: requests.Response) -> None:
        status = response.status_code
        if status in (401, 403):
            asked = f"{response.request.method} {urlsplit(response.url).path}"
            said = error_text(response) or "the credential does not allow it, or the image does not exist"
            raise self._authorizer.refused(f"{asked}: status {status}, {said}")
        if status == 429:
            wait = response.headers.get("Retry-After")
            raise RemoteRefusedError(
                f"registry {self.host} limits how often it may be asked",
                cause=error_text(response),
                remedy=f"retry {_after(wait)}, log in (docker login {self.host}), or set "
                f"{registry_variable(self.host)} to a mirror",
            )


class _Header(AuthBase):
    """Sets one header, or none; either way keeps requests from looking into ~/.netrc."""

    def __init__(self, value: str | None) -> None:
        self._value = value

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if self._value is not None:
            request.headers["Authorization"] = self._value
        return request


class _CountedBody(io.BytesIO):
    """A request body that tells how much of it was sent."""

    def __init__(self, content: bytes, count: Callable[[int], None]) -> None:
        super().__init__(content)
        self._count = count

    def read(self, size: int | None = -1, /) -> bytes:
        piece = super().read(size)
        self._count(len(piece))
        return piece


def error_text(response: requests.Response) -> str | None:
    """What a registry's error document says (distribution specification, "Error Codes")."""
    said = [": ".join(filter(None, (error.get("code"), error.get("message")))) for error in _errors(response)]
    return "; ".join(filter(None, said)) or None


def error_codes(response: requests.Response) -> frozenset[str]:
    """The codes of a registry's error document."""
    return frozenset(str(error.get("code")) for error in _errors(response))


def _errors(response: requests.Response) -> list[dict[str, Any]]:
    try:
        errors = response.json()["errors"]
    except (ValueError, KeyError, TypeError, requests.RequestException):
        return []
    return [error for error in errors if isinstance(error, dict)] if isinstance(errors, list) else []


def _origin(url: SplitResult) -> tuple[str, str | None, int | None]:
    return url.scheme, url.hostname, url.port or {"http": 80, "https": 443}.get(url.scheme)


def _after(wait: str | None) -> str:
    if not wait:
        return "later"
    return f"in {wait} s" if wait.isdigit() else f"after {wait}"


def _innermost(error: Exception) -> str:
    """The first reason of a chain, without the object addresses that libraries print."""
    reason: Any = error
    while True:
        inner = getattr(reason, "reason", None) or next(
            (item for item in reason.args if isinstance(item, Exception)), None
        )
        if not isinstance(inner, Exception):
            return str(reason).rpartition("): ")[2] or type(error).__name__
        reason = inner
