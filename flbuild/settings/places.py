"""Where an index is: a URL without credentials, or an absolute local path."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

from pydantic import SecretStr

from flbuild.errors import UsageError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def local_or_url(place: str, folder: Path) -> str:
    """A URL as it is; a local path absolute, taken from `folder` when relative.

    Raises:
        UsageError: it is a URL that nothing could be fetched from.
    """
    found = _SCHEME.match(place)
    scheme = found[1].lower() if found else "file"
    if scheme in ("http", "https"):
        return _checked(scheme + place[len(scheme) :])
    if scheme != "file":
        raise UsageError(
            f"an index or a find-links place is set to a {scheme}:// address",
            cause="it can be http://, https:// or file://, or a local path",
            remedy="look in flbuild.toml, the variables FLBUILD_* and PIP_*, and pip's configuration",
        )
    path = Path(unquote(place[len("file://") :]) if found else place)
    return str((folder / expand(path)).absolute())


def expand(path: Path) -> Path:
    """`path` with a leading ~ or ~USER replaced by that home folder.

    Raises:
        UsageError: nothing says where it is.
    """
    try:
        return path.expanduser()
    except RuntimeError:
        raise UsageError(
            f"nobody knows the home folder that {path} begins with",
            cause=f"{path.parts[0]} is no user of this machine, or HOME is not set",
            remedy="write the whole path, or set HOME",
        ) from None


def split_userinfo(url: str) -> tuple[str, SecretStr | None, SecretStr | None]:
    """An http(s) URL without its user information, and that user name and password."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or "@" not in parts.netloc:
        return url, None, None
    userinfo, _, host = parts.netloc.rpartition("@")
    name, _, password = userinfo.partition(":")
    bare = urlunsplit((parts.scheme, host, parts.path, parts.query, parts.fragment))
    return bare, SecretStr(unquote(name)), SecretStr(unquote(password))


def _checked(url: str) -> str:
    """`url` if it has a host, and if whatever precedes an '@' in it is known to be user information.

    Its text is in no message: what is wrong with it may be an unescaped character in a password.
    """
    try:
        parts = urlsplit(url)
        sound = bool(parts.hostname) and parts.port != 0
    except ValueError:
        sound = False
    if sound and ("@" in parts.netloc or "@" not in url):
        return url
    raise UsageError(
        "an index or a find-links place is set to an address whose host or port cannot be read",
        cause="in a user name or password, the characters / ? # @ are written %2F %3F %23 %40",
        remedy="look in flbuild.toml, the variables FLBUILD_* and PIP_*, and pip's configuration",
    )
