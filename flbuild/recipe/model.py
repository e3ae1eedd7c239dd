"""What an image is, for one platform: the recipe as strict, frozen models."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Literal

from packaging.utils import canonicalize_name
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

PackageName = Annotated[str, AfterValidator(lambda name: str(canonicalize_name(name)))]
"""A distribution name in PEP 503's normal form; `Flag_Gems` becomes `flag-gems`."""

IndexId = str
"""The id of a named index, for example `pypi`; its URL lives in the settings, not in a recipe."""


class StrictModel(BaseModel):
    """Unknown keys are errors and values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)


class Python(StrictModel):
    """The interpreter inside the image."""

    version: str = Field(pattern=r"^3\.\d+$", description="major.minor, for example 3.11")
    executable: str = Field(default="/usr/bin/python3", description="absolute path, used in script shebangs")
    site_packages: str = Field(description="absolute folder that wheels are installed to")
    scripts: str = Field(default="/usr/local/bin", description="absolute folder of console scripts")
    bytecode: bool = Field(
        default=True, description="compile hash-based .pyc files where the base's own interpreter can run"
    )


class ImageBase(StrictModel):
    """A base from a registry."""

    kind: Literal["image"] = "image"
    image: str = Field(description="reference with a tag; the lock adds the digest")
    provides: dict[PackageName, str] = Field(
        default_factory=dict, description="distributions that the base owns and that nothing may replace"
    )
    remove: tuple[PackageName, ...] = Field(default=(), description="distributions removed from the base")


class DebianBase(StrictModel):
    """A base bootstrapped from Debian's signed archive, for machines that reach no registry."""

    kind: Literal["debian"] = "debian"
    debian: str = Field(description="suite, for example bookworm")
    packages: tuple[str, ...] = Field(default=(), description="Debian packages beyond the minimal system")
    provides: dict[PackageName, str] = Field(default_factory=dict)
    remove: tuple[PackageName, ...] = ()


Base = ImageBase | DebianBase


class Vllm(StrictModel):
    """Which vLLM, and for which device; `empty` builds the wheel without device code (`+empty`)."""

    version: str
    device: Literal["empty", "cuda"] = "empty"

    @property
    def local_version(self) -> str:
        """The version as installed, for example 0.28.0+empty."""
        return f"{self.version}+empty" if self.device == "empty" else self.version


class Package(StrictModel):
    """A distribution the recipe pins: from an index, or from a git commit."""

    name: PackageName
    version: str
    index: IndexId | None = Field(default=None, description="named index; `pypi` when neither index nor git is given")
    git: str | None = Field(default=None, description="URL of a git repository")
    commit: str | None = Field(default=None, pattern=r"^[0-9a-f]{40}$")
    provides_modules: dict[str, str] = Field(
        default_factory=dict, description="top-level modules this distribution owns, with their versions"
    )
    build_env: dict[str, str] = Field(default_factory=dict, description="environment of a build from git")


class Waiver(StrictModel):
    """A reviewed exception to one check."""

    check: str
    subject: str
    reason: str
    expires: date


class Plugin(StrictModel):
    """The plugin wheel built from this repository."""

    path: str = "plugin"
    name: PackageName = "vllm-plugin-fl"
    entry_points: tuple[str, ...] = ()


class Target(StrictModel):
    """A variant of the image with extra packages."""

    extends: str | None = None
    packages: tuple[str, ...] = Field(default=(), description="PEP 508 requirements")
    size_budget: int | None = Field(default=None, gt=0, description="bytes, compressed, of the layers above the base")


class Image(StrictModel):
    """Where the image is published."""

    repository: str
    tag: str = Field(description="template with {vllm}, {target}, {date}, {revision}, {plugin}")


class Ci(StrictModel):
    """How continuous integration runs this platform."""

    runner_labels: tuple[str, ...] = ()
    volumes: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    env: dict[str, str] = Field(default_factory=dict)


class Recipe(StrictModel):
    """One image recipe: `recipes/NAME.yaml`."""

    schema_version: Literal[1] = Field(alias="schema")
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_.-]*$")
    summary: str
    platform: str = Field(pattern=r"^linux/(amd64|arm64)$")
    python: Python
    base: Base
    vllm: Vllm
    packages: tuple[Package, ...] = ()
    overrides: tuple[str, ...] = Field(
        default=(), description="PEP 508 requirements that win over what other distributions declare"
    )
    forbid: tuple[str, ...] = Field(default=(), description="distribution names or globs that must be absent")
    waivers: tuple[Waiver, ...] = ()
    plugin: Plugin = Plugin()
    targets: dict[str, Target]
    env: dict[str, str] = Field(default_factory=dict)
    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()
    workdir: str | None = None
    image: Image
    ci: Ci = Ci()
