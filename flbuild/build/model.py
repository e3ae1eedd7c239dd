"""What a builder gives back, independent of where it will go (a layout, a registry, an engine)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from flbuild.plan.model import Plan
from flbuild.progress import Progress


@dataclass(frozen=True)
class Blob:
    """A layer. `path` is the local compressed file; None means it is only in the base's repository."""

    digest: str
    size: int
    media_type: str
    diff_id: str
    path: Path | None
    from_base: bool


@dataclass(frozen=True)
class BuiltImage:
    """One platform's image: exact manifest and config bytes, and its layers in order.

    `base_reference` names the repository that holds layers without a local path, for mounting or
    streaming them; None for a base that was made here.
    """

    manifest: bytes
    manifest_digest: str
    manifest_media_type: str
    config: bytes
    config_digest: str
    layers: tuple[Blob, ...]
    base_reference: str | None


class Builder(Protocol):
    """Makes an image from a plan. `files` maps the SHA-256 of every planned wheel to its local file."""

    name: str
    guarantees: tuple[str, ...]

    def build(self, plan: Plan, files: Mapping[str, Path], progress: Progress) -> BuiltImage:
        """Build `plan`; errors are BuildError."""
