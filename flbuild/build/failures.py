"""Failures of builders that are known by what they print: their class, their cause, the next command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flbuild.errors import (
    FlbuildError,
    HostError,
    RemoteGoneError,
    RemoteRefusedError,
    UnreachableError,
)


@dataclass(frozen=True)
class Known:
    signs: tuple[str, ...]
    error: type[FlbuildError]
    cause: str
    remedy: str


KNOWN = (
    Known(
        ("cgroups in hybrid mode not supported",),
        HostError,
        "crun takes cgroups of version 1 or of version 2, and this machine has controllers in both",
        "apt-get install runc, and set BUILDAH_RUNTIME=runc",
    ),
    Known(
        ("no space left on device", "disk quota exceeded"),
        HostError,
        "the disk that {tool} builds on is full",
        "make room with {prune}, or move its storage to a larger disk",
    ),
    Known(
        ("toomanyrequests", "too many requests", "rate limit"),
        RemoteRefusedError,
        "the registry of the base gives this address no more for now (429)",
        "log in with docker login, wait, or set a mirror of the registry in flbuild.toml",
    ),
    Known(
        ("exec format error", "does not match the specified platform", "no matching manifest for"),
        HostError,
        "the base is for another architecture than the machine that builds",
        "build on such a machine (DOCKER_HOST), or with --builder oci, which runs nothing of the base",
    ),
    Known(
        (
            "manifest unknown",
            "not found: manifest",
            "manifest for",
            "name unknown",
            "repository name not known",
        ),
        RemoteGoneError,
        "the locked digest of the base is no longer in its registry",
        "flbuild lock {name} --refresh-base, or set a mirror of the registry that still has it",
    ),
    Known(
        ("unauthorized", "authentication required", "pull access denied", "denied: "),
        RemoteRefusedError,
        "the registry of the base asks for other credentials",
        "docker login, or set username and password of the registry in flbuild.toml",
    ),
    Known(
        (
            *("no such host", "server misbehaving", "temporary failure in name resolution"),
            *("network is unreachable", "connection refused", "i/o timeout", "tls handshake timeout"),
            *("context deadline exceeded", "certificate signed by unknown authority"),
        ),
        UnreachableError,
        "{tool} does not reach the registry of the base; the steps themselves need no network",
        "give {tool} the proxy and the certificates that it needs, or set a mirror of the registry",
    ),
)
"""By their signs in what builders print (lower case), the more telling first."""


def explain(lines: Sequence[str]) -> Known | None:
    """The known failure that these lines show, or None."""
    text = "\n".join(lines).lower()
    return next((known for known in KNOWN if any(sign in text for sign in known.signs)), None)
