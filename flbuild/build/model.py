"""What a builder takes and gives, wherever the image will go: a layout, a registry, an engine."""

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


@dataclass(frozen=True)
class CacheOptions:
    """Where a builder of Dockerfiles takes cached steps from, and where it puts them.

    Args:
        sources: image references, or what `docker buildx build --cache-from` understands.
        target: the same for `--cache-to`.
    """

    sources: tuple[str, ...] = ()
    target: str | None = None


class Inputs(Protocol):
    """What a plan names, in the form that a builder wants; nothing is fetched or made before it asks."""

    def files(self) -> Mapping[str, Path]:
        """The local file of every planned wheel, by SHA-256."""

    def write_context(self, folder: Path) -> None:
        """Write the plan as a Dockerfile with its whole context to a new folder."""


class Builder(Protocol):
    """Makes an image from a plan."""

    name: str
    guarantees: tuple[str, ...]

    def check(self) -> None:
        """Whether it can build here at all, asked before anything is fetched; if not, a HostError."""

    def prepare(self, plan: Plan) -> None:
        """Look at what may have moved since it was locked, before anything else is worth waiting for."""

    def build(self, plan: Plan, inputs: Inputs, progress: Progress) -> BuiltImage:
        """Build `plan`; errors are those of their classes, BuildError if none fits better."""
