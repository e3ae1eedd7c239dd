"""Where an index is: a URL without credentials, or an absolute local path."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

from pydantic import SecretStr


def local_or_url(place: str, folder: Path) -> str:
    """A URL as it is; a local path absolute, taken from `folder` when relative."""
    if "://" in place and not place.startswith("file://"):
        return place
    return str(
        (folder / Path(unquote(place[7:]) if place.startswith("file://") else place).expanduser()).absolute()
    )


def split_userinfo(url: str) -> tuple[str, SecretStr | None, SecretStr | None]:
    """An http(s) URL without its user information, and that user name and password."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or "@" not in parts.netloc:
        return url, None, None
    userinfo, _, host = parts.netloc.rpartition("@")
    name, _, password = userinfo.partition(":")
    bare = urlunsplit((parts.scheme, host, parts.path, parts.query, parts.fragment))
    return bare, SecretStr(unquote(name)), SecretStr(unquote(password))
