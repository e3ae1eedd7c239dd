"""Image references: `host/repository:tag@digest`, with docker.io's short forms."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from flbuild.errors import UsageError

_HOST = r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?|\[[0-9a-fA-F:]+\])(?::[0-9]+)?"
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REFERENCE = re.compile(
    rf"(?:(?P<host>{_HOST})/)?(?P<repository>{_PART}(?:/{_PART})*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?"
    r"(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)
"""The grammar of the distribution project's `reference` package."""

_LONGEST_NAME = 255

DOCKER_HUB = "docker.io"


@dataclass(frozen=True)
class Reference:
    """Where an image is. At least one of `tag` and `digest` is set unless it names a repository only."""

    host: str
    repository: str
    tag: str | None = None
    digest: str | None = None

    @classmethod
    def parse(cls, text: str) -> Reference:
        """Read a reference; a first part without a dot, a port or `localhost` is no host.

        Raises:
            UsageError: it is none.
        """
        match = _REFERENCE.fullmatch(text)
        if match is None:
            raise _no_reference(text)
        host, repository = match["host"], match["repository"]
        if host is not None and not ("." in host or ":" in host or host == "localhost"):
            host, repository = None, f"{host}/{repository}"
        if host is None or host == "index.docker.io":
            host = DOCKER_HUB
        if host == DOCKER_HUB and "/" not in repository:
            repository = f"library/{repository}"
        if repository != repository.lower() or len(f"{host}/{repository}") > _LONGEST_NAME:
            raise _no_reference(text)
        return cls(host, repository, match["tag"], match["digest"])

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        digest = f"@{self.digest}" if self.digest else ""
        return f"{self.name}{tag}{digest}"

    @property
    def name(self) -> str:
        """Host and repository."""
        return f"{self.host}/{self.repository}"

    @property
    def target(self) -> str:
        """What a manifest is asked by: the digest if there is one, else the tag.

        Raises:
            UsageError: it names a repository only.
        """
        found = self.digest or self.tag
        if found is None:
            raise UsageError(f"{self} names no image", remedy=f"add a tag or a digest: {self}:TAG")
        return found

    def at(self, digest: str) -> Reference:
        """The same repository, by digest."""
        return replace(self, tag=None, digest=digest)


def _no_reference(text: str) -> UsageError:
    return UsageError(
        f"'{text}' is not an image reference",
        cause="a repository is lower case, a tag has at most 128 characters, a digest is sha256:HEX",
        remedy="write it as host/repository:tag or host/repository@sha256:...",
    )
