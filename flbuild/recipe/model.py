"""What an image is, for one platform: the recipe as strict, frozen models."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, StrictBool, StrictInt, Tag, model_validator

from flbuild.recipe.types import (
    AbsolutePath,
    BaseReference,
    Day,
    DebianName,
    Device,
    Environment,
    GitUrl,
    IndexId,
    ModuleName,
    NamePattern,
    PackageName,
    PackageVersion,
    PlainText,
    RelativePath,
    Repository,
    RequirementText,
    ShortName,
    TagTemplate,
    Volume,
)

__all__ = [
    "BASE_KINDS",
    "Base",
    "Ci",
    "DebianBase",
    "Image",
    "ImageBase",
    "IndexId",
    "Package",
    "PackageName",
    "Plugin",
    "Python",
    "Recipe",
    "StrictModel",
    "Target",
    "Vllm",
    "Waiver",
]


class StrictModel(BaseModel):
    """Unknown keys are errors and values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)


class Python(StrictModel):
    """The interpreter inside the image."""

    version: str = Field(pattern=r"^3\.\d+$", description="major.minor in quotes, for example '3.11'")
    executable: AbsolutePath = Field(
        default="/usr/bin/python3", description="absolute path, used in script shebangs"
    )
    site_packages: AbsolutePath = Field(description="absolute folder that wheels are installed to")
    scripts: AbsolutePath = Field(default="/usr/local/bin", description="absolute folder of console scripts")
    bytecode: StrictBool = Field(
        default=True, description="compile hash-based .pyc files where the base's own interpreter can run"
    )


class _AnyBase(StrictModel):
    provides: dict[PackageName, PackageVersion] = Field(
        default_factory=dict, description="distributions that the base owns and that nothing may replace"
    )
    remove: tuple[PackageName, ...] = Field(default=(), description="distributions removed from the base")
    components: dict[ShortName, PackageVersion] = Field(
        default_factory=dict,
        description="other software the base carries, with its version, for example cann, nnal or cuda",
    )


class ImageBase(_AnyBase):
    """A base from a registry."""

    kind: Literal["image"] = "image"
    image: BaseReference = Field(description="reference with a tag; the lock adds the digest")


class DebianBase(_AnyBase):
    """A base bootstrapped from Debian's signed archive, for machines that reach no registry."""

    kind: Literal["debian"] = "debian"
    debian: str = Field(pattern=r"^[a-z][a-z0-9.-]*$", description="suite, for example bookworm")
    packages: tuple[DebianName, ...] = Field(
        default=(), description="Debian packages beyond the minimal system"
    )


BASE_KINDS = ("image", "debian")
"""The keys of which a base has exactly one; it picks the model."""


def _base_kind(value: Any) -> str | None:
    """Which model a base is; None when it is not exactly one of the two."""
    if isinstance(value, _AnyBase):
        return "image" if isinstance(value, ImageBase) else "debian"
    found = [key for key in BASE_KINDS if isinstance(value, dict) and key in value]
    return found[0] if len(found) == 1 else None


Base = Annotated[
    Annotated[ImageBase, Tag("image")] | Annotated[DebianBase, Tag("debian")],
    Discriminator(
        _base_kind,
        custom_error_type="base_kind",
        custom_error_message=(
            "a base has exactly one of 'image' (a reference with a tag) and 'debian' (the name of a suite)"
        ),
    ),
]


class Vllm(StrictModel):
    """Which vLLM, and for which device; `empty` builds the wheel without device code (`+empty`)."""

    version: PackageVersion
    device: Literal["empty", "cuda"] = "empty"

    @property
    def local_version(self) -> str:
        """The version as installed, for example 0.28.0+empty."""
        return f"{self.version}+empty" if self.device == "empty" else self.version


class Package(StrictModel):
    """A distribution the recipe pins: from an index, or from a git commit."""

    name: PackageName
    version: PackageVersion
    index: IndexId | None = Field(
        default=None,
        pattern=r"^[a-z0-9][a-z0-9_-]*$",
        description="the id of a named index; `pypi` when neither index nor git is given",
    )
    git: GitUrl | None = Field(default=None, description="URL of a git repository")
    commit: str | None = Field(
        default=None, pattern=r"^[0-9a-f]{40}$", description="all 40 hexadecimal digits of a git commit"
    )
    provides_modules: dict[ModuleName, PackageVersion] = Field(
        default_factory=dict, description="top-level modules this distribution owns, with their versions"
    )
    build_env: Environment = Field(default_factory=dict, description="environment of a build from git")

    @model_validator(mode="after")
    def _one_origin(self) -> Package:
        if self.git is not None and self.index is not None:
            raise ValueError(f"package {self.name} has both 'index' and 'git'; keep the one it comes from")
        if self.git is not None and self.commit is None:
            raise ValueError(f"package {self.name} comes from git without 'commit'; branches and tags move")
        if self.git is None and self.commit is not None:
            raise ValueError(f"package {self.name} has 'commit' without 'git'")
        if self.git is None and self.build_env:
            raise ValueError(
                f"package {self.name} has 'build_env' but is not built here; only git packages are"
            )
        return self


class Waiver(StrictModel):
    """A reviewed exception to one check."""

    check: ShortName = Field(description="id of the check, for example requirements")
    subject: PlainText = Field(description="the finding's subject, exactly as the check prints it")
    reason: PlainText = Field(min_length=10, description="why it is safe, for the next reviewer")
    expires: Day = Field(description="day from which the exception no longer counts")


class Plugin(StrictModel):
    """The plugin wheel built from this repository."""

    path: RelativePath = "plugin"
    name: PackageName = "vllm-plugin-fl"
    entry_points: tuple[PlainText, ...] = Field(
        default=(), description="entry-point groups in which the wheel must register"
    )


class Target(StrictModel):
    """A variant of the image with extra packages."""

    extends: str | None = Field(default=None, description="another target whose packages come first")
    packages: tuple[RequirementText, ...] = Field(default=(), description="PEP 508 requirements")
    size_budget: StrictInt | None = Field(
        default=None, gt=0, description="bytes, compressed, of the layers above the base"
    )


class Image(StrictModel):
    """Where the image is published."""

    repository: Repository
    tag: TagTemplate = Field(description="template with {vllm}, {target}, {date}, {revision}, {plugin}")


class Ci(StrictModel):
    """How continuous integration runs this platform."""

    runner_labels: tuple[PlainText, ...] = ()
    volumes: tuple[Volume, ...] = Field(default=(), description="host:container[:ro], absolute paths")
    devices: tuple[Device, ...] = Field(default=(), description="device files, below /dev")
    options: tuple[PlainText, ...] = ()
    env: Environment = Field(default_factory=dict)


class Recipe(StrictModel):
    """One image recipe: `recipes/NAME.yaml`."""

    schema_version: Literal[1] = Field(alias="schema")
    name: ShortName = Field(description="the file's name without .yaml")
    summary: PlainText
    platform: Literal["linux/amd64", "linux/arm64"]
    python: Python
    base: Base
    vllm: Vllm
    packages: tuple[Package, ...] = ()
    overrides: tuple[RequirementText, ...] = Field(
        default=(), description="PEP 508 requirements that win over what other distributions declare"
    )
    forbid: tuple[NamePattern, ...] = Field(
        default=(), description="distribution names or globs that must be absent"
    )
    waivers: tuple[Waiver, ...] = ()
    plugin: Plugin = Plugin()
    targets: dict[ShortName, Target] = Field(min_length=1)
    env: Environment = Field(default_factory=dict)
    entrypoint: tuple[PlainText, ...] = ()
    cmd: tuple[PlainText, ...] = ()
    workdir: AbsolutePath | None = None
    image: Image
    ci: Ci = Ci()
