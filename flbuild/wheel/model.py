"""What a wheel build gives back."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class PluginFacts:
    """The plugin at one commit, known without building it.

    `revision` is the full commit, or None in a copy that records none. `epoch` is the commit's time in
    seconds, UTC. `archive_sha256` is the SHA-256 of the uncompressed `git archive --format=tar COMMIT`,
    None where there is no repository to make it from. `source` is the project's own URL of its sources.
    """

    name: str
    version: str
    filename: str
    revision: str | None
    epoch: int
    tagged: bool
    archive_sha256: str | None
    source: str | None = None


@dataclass(frozen=True)
class BuiltWheel:
    """A wheel file in the store."""

    path: Path
    name: str
    version: str
    sha256: str
    size: int

    @property
    def filename(self) -> str:
        """The wheel's file name, which carries its tags."""
        return self.path.name
