"""Taking credentials out of anything that is shown or written."""

from __future__ import annotations

import re

HIDDEN = "***"

_USERINFO = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)[^/?#\s\"'<>]*@")
_SECRET_PARAMETER = re.compile(
    r"(?P<name>[?&][^=&\s#]*(?:token|secret|passw|signature|sig|credential|apikey|api_key|access_?key)[^=&\s#]*=)"
    r"[^&\s#\"'<>]+",
    re.IGNORECASE,
)
_AUTHORIZATION = re.compile(
    r"(?P<name>authorization['\"]?\s*[:=]\s*['\"]?(?:(?:basic|bearer)\s+)?)[^\s'\",}]+", re.IGNORECASE
)


def redact(text: str) -> str:
    """`text` without user names and passwords in URLs, secret query parameters and authorization headers.

    The user name goes too: many indexes take a token in its place.
    """
    text = _USERINFO.sub(rf"\g<scheme>{HIDDEN}@", text)
    text = _SECRET_PARAMETER.sub(rf"\g<name>{HIDDEN}", text)
    return _AUTHORIZATION.sub(rf"\g<name>{HIDDEN}", text)


def redact_url(url: str) -> str:
    """A URL that may be shown or written: without user information at all, secret parameters hidden."""
    return redact(_USERINFO.sub(r"\g<scheme>", url))
