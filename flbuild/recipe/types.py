"""Kinds of text a recipe holds, each with the check that keeps it harmless further down."""

from __future__ import annotations

import re
from datetime import date, datetime
from string import Formatter
from typing import Annotated, Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidName, canonicalize_name
from packaging.version import InvalidVersion, Version
from pydantic import AfterValidator, BeforeValidator, Field

from flbuild.suggest import perhaps

TAG_FIELDS = ("vllm", "target", "date", "revision", "plugin")
"""What the template of an image's tag may name."""

_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_REPOSITORY = re.compile(
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]+)?/)?"
    r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*"
)
_GIT = re.compile(r"(?:https?|ssh|git|file)://\S+|[\w.-]+@[\w.-]+:[\w./~-]+")


def _package_name(name: str) -> str:
    try:
        return str(canonicalize_name(name, validate=True))
    except InvalidName:
        raise ValueError(f"'{name}' is not the name of a Python distribution") from None


def _version(text: str) -> str:
    try:
        return str(Version(text))
    except InvalidVersion:
        raise ValueError(f"'{text}' is not one exact version; a recipe pins, it does not range") from None


def _requirement(text: str) -> str:
    try:
        requirement = Requirement(text)
    except InvalidRequirement as error:
        raise ValueError(f"'{text}' is not a requirement: {str(error).splitlines()[0]}") from None
    if requirement.url is not None:
        raise ValueError(f"'{text}' names a URL; name a version, and the index in `packages`")
    return " ".join(text.split())


def _plain_text(text: str) -> str:
    if not text.isprintable():
        raise ValueError("holds a line break or another control character")
    return text


def _absolute(path: str) -> str:
    if (
        not path.startswith("/")
        or "//" in path
        or ".." in path.split("/")
        or (path.endswith("/") and path != "/")
    ):
        raise ValueError(f"'{path}' is not a plain absolute path")
    return _plain_text(path)


def _relative(path: str) -> str:
    if not path or path.startswith("/") or ".." in path.split("/"):
        raise ValueError(f"'{path}' is not a path below the project")
    return _plain_text(path)


def _base_reference(reference: str) -> str:
    if "@" in reference:
        raise ValueError(f"'{reference}' holds a digest; write repository:tag, the lock adds the digest")
    repository, colon, tag = reference.rpartition(":")
    if not colon or "/" in tag:
        raise ValueError(f"'{reference}' has no tag; a base is written as repository:tag")
    if not _REPOSITORY.fullmatch(repository) or not _TAG.fullmatch(tag):
        raise ValueError(f"'{reference}' is not an image reference")
    if tag == "latest":
        raise ValueError(f"'{reference}' follows whatever is newest; name the tag of a release")
    return reference


def _repository(repository: str) -> str:
    if not _REPOSITORY.fullmatch(repository):
        raise ValueError(f"'{repository}' is not a repository; the tag has its own key")
    return repository


def _tag_template(template: str) -> str:
    try:
        parts = list(Formatter().parse(template))
    except ValueError as error:
        raise ValueError(f"'{template}' is not a template: {error}") from None
    for _, name, spec, conversion in parts:
        if name is None:
            continue
        if name not in TAG_FIELDS:
            raise ValueError(f"'{template}' names an unknown field {{{name}}}{perhaps(name, TAG_FIELDS)}")
        if spec or conversion:
            raise ValueError(f"'{template}': a field is written {{{name}}}, without a format")
    if not _TAG.fullmatch("".join(f"{text}{'x' if name else ''}" for text, name, _, _ in parts)):
        raise ValueError(f"'{template}' does not make a tag: letters, digits, '_', '.' and '-', 128 at most")
    return template


def _git_url(url: str) -> str:
    if not _GIT.fullmatch(url):
        raise ValueError(f"'{url}' is not the URL of a git repository")
    if re.match(r"https?://[^/]*@", url):
        raise ValueError("holds credentials; git asks a credential helper for them")
    return url


def _day(value: Any) -> Any:
    # Pydantic would read a number as seconds since 1970, and a time of day as its date.
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    try:
        return datetime.strptime(value, "%Y-%m-%d").date()
    except (TypeError, ValueError):
        raise ValueError("is not a day; write it as YYYY-MM-DD") from None


PackageName = Annotated[str, AfterValidator(_package_name)]
"""A distribution name in PEP 503's normal form; `Flag_Gems` becomes `flag-gems`."""

PackageVersion = Annotated[str, AfterValidator(_version)]
"""One version in PEP 440's normal form."""

PlainText = Annotated[str, AfterValidator(_plain_text)]
"""One line of printable text: it ends up in labels, Dockerfiles and tables."""

IndexId = str
"""The id of a named index, for example `pypi`; its URL lives in the settings, not in a recipe."""

RequirementText = Annotated[str, AfterValidator(_requirement)]
AbsolutePath = Annotated[str, AfterValidator(_absolute)]
RelativePath = Annotated[str, AfterValidator(_relative)]
BaseReference = Annotated[str, AfterValidator(_base_reference)]
Repository = Annotated[str, AfterValidator(_repository)]
TagTemplate = Annotated[str, AfterValidator(_tag_template)]
GitUrl = Annotated[str, AfterValidator(_git_url)]
Day = Annotated[date, BeforeValidator(_day)]
ModuleName = Annotated[str, Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$")]
DebianName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9+.-]+$")]
VariableName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
ShortName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.-]*$")]
Volume = Annotated[str, Field(pattern=r"^/[^:\s]+:/[^:\s]+(:ro|:rw)?$")]
Device = Annotated[str, Field(pattern=r"^/dev/[^\s]+$")]
NamePattern = Annotated[str, Field(pattern=r"^[A-Za-z0-9*?\[\]!._-]+$")]
Environment = dict[VariableName, PlainText]
