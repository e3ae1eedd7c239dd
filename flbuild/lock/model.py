"""`images.lock`: every input pinned by digest or SHA-256, every output recorded."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from flbuild.recipe.model import IndexId, PackageName, StrictModel

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
"""Bare hexadecimal, as the simple index gives it: wheels, sdists, archives."""

Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
"""Algorithm and hexadecimal, as the OCI image specification writes it: manifests, configs, layers."""


class LockedFile(StrictModel):
    """A wheel from an index, pinned. No URL: any place may serve it if the hash is right."""

    name: PackageName
    version: str
    index: IndexId
    filename: str
    sha256: Sha256
    size: int = Field(ge=0)
    requires_python: str | None = None


class Unresolved(StrictModel):
    """An input that could not be pinned; no build accepts a lock that holds one."""

    name: str
    version: str
    source: str = Field(description="index id, registry host or git URL that could not be reached")
    reason: str


class SourceFile(StrictModel):
    """An sdist on an index."""

    kind: Literal["sdist"] = "sdist"
    index: IndexId
    filename: str
    sha256: Sha256
    size: int = Field(ge=0)


class GitSource(StrictModel):
    """A commit of a git repository, with the hash of its uncompressed `git archive` tar."""

    kind: Literal["git"] = "git"
    git: str
    commit: str = Field(pattern=r"^[0-9a-f]{40}$")
    tag: str | None = Field(default=None, description="release tag that named the commit when it was locked")
    archive_sha256: Sha256


class LockedSource(StrictModel):
    """A distribution that flbuild builds from source into a wheel whose bytes are pinned too."""

    name: PackageName
    version: str = Field(description="of the wheel, for example 0.28.0+empty")
    source: Annotated[SourceFile | GitSource, Field(discriminator="kind")]
    env: dict[str, str] = Field(default_factory=dict, description="build environment, without secrets")
    filename: str
    sha256: Sha256
    size: int = Field(ge=0)


class LockedLayer(StrictModel):
    """A layer of the base."""

    digest: Digest
    size: int = Field(ge=0)
    media_type: str
    diff_id: Digest


class BaseDistribution(StrictModel):
    """A Python distribution that the base carries."""

    name: PackageName
    version: str
    location: str = Field(
        description="absolute path of its .dist-info or .egg-info, or of an editable's finder"
    )
    editable: bool = False
    files: tuple[str, ...] = Field(
        default=(), description="absolute paths to white out if it is removed; only kept for removed ones"
    )


class LockedImageBase(StrictModel):
    """A registry base: the digest is what the tag pointed at, the manifest is this platform's."""

    kind: Literal["image"] = "image"
    reference: str = Field(description="with its tag")
    digest: Digest
    digest_kind: Literal["index", "image"]
    manifest: Digest
    media_type: str
    config: Digest
    layers: tuple[LockedLayer, ...]
    inventory: tuple[BaseDistribution, ...] = ()
    glibc: str | None = None


class DebianPackage(StrictModel):
    """One installed Debian package."""

    name: str
    version: str
    architecture: str


class LockedDebianBase(StrictModel):
    """A bootstrapped base: its package list and the hash of its root file system."""

    kind: Literal["debian"] = "debian"
    suite: str
    requested: tuple[str, ...] = Field(default=(), description="packages the recipe asked for, sorted")
    epoch: int = Field(description="seconds; the mtime of every file and the base's creation time")
    layer: LockedLayer
    packages: tuple[DebianPackage, ...]
    inventory: tuple[BaseDistribution, ...] = ()
    glibc: str | None = None

    @property
    def layers(self) -> tuple[LockedLayer, ...]:
        """The one layer, as a registry base has its several."""
        return (self.layer,)


LockedBase = Annotated[LockedImageBase | LockedDebianBase, Field(discriminator="kind")]


class PluginRecord(StrictModel):
    """The plugin wheel inside an output."""

    version: str
    filename: str
    sha256: Sha256
    archive_sha256: Sha256 | None = Field(
        default=None, description="of `git archive --format=tar`; null where there was no repository"
    )


class Output(StrictModel):
    """An image that was built from this entry. `reference` is null until it is published."""

    target: str
    reference: str | None = Field(default=None, description="repository:tag where it was pushed")
    manifest: Digest
    kind: Literal["index", "image"] = "image"
    config: Digest
    layers: tuple[Digest, ...]
    diff_ids: tuple[Digest, ...]
    revision: str = Field(description="commit the plugin was built from")
    plugin: PluginRecord
    builder: str
    created: str = Field(description="RFC 3339, UTC; the commit's time, not the clock's")


class LockedImage(StrictModel):
    """The locked inputs and recorded outputs of one recipe."""

    seal: Digest | None = Field(default=None, description="hash of this entry's inputs, see `lock.seal`")
    recipe: Digest = Field(description="canonical hash of the recipe as resolved")
    platform: str
    python: str
    base: LockedBase | None = Field(default=None, description="null only when `unresolved` says why")
    sources: tuple[LockedSource, ...] = ()
    packages: tuple[LockedFile, ...]
    targets: dict[str, tuple[LockedFile, ...]] = Field(default_factory=dict)
    unresolved: tuple[Unresolved, ...] = ()
    outputs: tuple[Output, ...] = ()


class Lock(StrictModel):
    """The whole of `images.lock`."""

    version: Literal[1] = 1
    build_tools_seal: Digest | None = Field(
        default=None, description="hash of the pins below, see `lock.seal`"
    )
    build_tools: tuple[LockedFile, ...] = Field(
        default=(), description="the build backends that make wheels from source; pure Python, any machine"
    )
    images: dict[str, LockedImage] = Field(default_factory=dict)
