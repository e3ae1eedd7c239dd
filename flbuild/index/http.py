"""One HTTP session with the user's proxy and certificates, retries, and errors by class."""

from __future__ import annotations

from collections.abc import Mapping

import requests
from requests.adapters import HTTPAdapter
from urllib3.response import BaseHTTPResponse
from urllib3.util.retry import Retry

from flbuild import __version__
from flbuild.settings import Settings

TIMEOUT = (10.0, 60.0)
"""Seconds to connect, and to wait for the next bytes."""

RETRIED = (429, 500, 502, 503, 504)


class PatientRetry(Retry):
    """Retries that never sleep longer than `LONGEST` seconds, whatever Retry-After asks for."""

    LONGEST = 30.0

    def get_retry_after(self, response: BaseHTTPResponse) -> float | None:
        asked = super().get_retry_after(response)
        return None if asked is None else min(asked, self.LONGEST)


def retries(wait: float) -> Retry:
    """Four more tries for an answer that may pass, two for a host that does not answer.

    Args:
        wait: seconds before the second retry, doubled for each one after.
    """
    return PatientRetry(
        total=4,
        connect=2,
        redirect=10,
        backoff_factor=wait,
        backoff_max=10,
        status_forcelist=RETRIED,
        allowed_methods=("GET", "HEAD"),
        raise_on_status=False,
    )


class Http:
    """GET requests; safe to share between threads."""

    def __init__(self, settings: Settings, *, wait: float = 0.5) -> None:
        self._session = requests.Session()
        adapter = HTTPAdapter(
            pool_connections=8, pool_maxsize=max(settings.jobs, 8), max_retries=retries(wait)
        )
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, adapter)
        self._session.headers["User-Agent"] = f"flbuild/{__version__}"
        # Given with each request: on the session they would lose against variables of the environment.
        self._verify = None if settings.ca_bundle is None else str(settings.ca_bundle)
        proxy = None if settings.proxy is None else settings.proxy.get_secret_value()
        self._proxies = None if proxy is None else {"http": proxy, "https": proxy}

    def get(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        auth: tuple[str, str] | None = None,
        stream: bool = False,
    ) -> requests.Response:
        """One response of any status; `requests.RequestException` when there is none."""
        return self._session.get(
            url,
            headers=headers,
            auth=auth,
            stream=stream,
            timeout=TIMEOUT,
            verify=self._verify,
            proxies=self._proxies,
        )
