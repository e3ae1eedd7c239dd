"""The closure of an image, by uv: exact versions for a platform that need not be this machine's."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote, unquote, urlsplit, urlunsplit
from urllib.request import url2pathname

import uv
from packaging.pylock import Package, PackageWheel, Pylock
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from flbuild.errors import FlbuildError, HostError, RecipeError, UnreachableError
from flbuild.index.client import is_url
from flbuild.index.tags import Environment
from flbuild.lock.stub import Fixed, write_stub
from flbuild.settings import Settings, index_variable
from flbuild.settings.toml import parse_toml

INDEX = "pypi"
"""The index of every distribution for which the recipe names no other."""

_GLIBC_CHOICES = (17, 28, *range(31, 41))
"""Minor versions of glibc 2 for which uv knows a platform."""

_SHOWN_LINES = 40
"""Lines of uv's explanation that are shown; the first say what conflicts with what."""

_UV_TRANSPORT = ("UV_HTTP_", "UV_CONCURRENT_", "UV_NATIVE_TLS", "UV_SYSTEM_CERTS")
"""Variables of uv that change how it talks, not what it answers."""

_NO_ANSWER = ("Failed to fetch", "error sending request", "error decoding response body", "timed out")
"""How uv says that an index gave no usable answer."""


@dataclass(frozen=True)
class Question:
    """What is asked of the resolver.

    Args:
        requirements: PEP 508 requirements of the image.
        fixed: distributions that are settled; each must be part of the answer and is left out of it.
        overrides: requirements that win over what distributions declare.
        constraints: requirements that hold if the distribution is needed.
        preferences: versions to keep as long as nothing speaks against them, by name.
    """

    environment: Environment
    requirements: tuple[str, ...]
    fixed: tuple[Fixed, ...] = ()
    overrides: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    preferences: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Candidate:
    """A wheel of a resolved version. `location` is a URL or a path; hash and size as the index gives them."""

    filename: str
    location: str
    sha256: str | None
    size: int | None


@dataclass(frozen=True)
class Resolved:
    """One distribution of the answer, with the wheels that an index has of it."""

    name: str
    version: str
    wheels: tuple[Candidate, ...]


class Resolver:
    """Runs uv against the index `pypi` of the settings, with nothing of the user's own uv configuration."""

    def __init__(self, settings: Settings, *, offline: bool = False) -> None:
        self._settings = settings
        self._offline = offline

    def resolve(self, question: Question, *, known: bool = False) -> tuple[Resolved, ...]:
        """Every distribution that the requirements need, without the fixed ones, sorted by name.

        Args:
            known: a wider question was answered just now, so that nothing has to be looked up again.

        Raises:
            RecipeError: no set of versions satisfies the requirements; the text says why.
            UnreachableError: the index did not answer.
            HostError: offline, and something was never seen before.
        """
        with TemporaryDirectory(prefix="flbuild-resolve-") as name:
            folder = Path(name)
            output = folder / "pylock.toml"
            if earlier := _preferences(question):
                output.write_text(earlier)
            options = ("--format", "pylock.toml", "--output-file", str(output))
            self._run(question, folder, *options, known=known)
            answer = Pylock.from_dict(parse_toml(output.read_text()))
            fixed = {canonicalize_name(item.name) for item in question.fixed}
            found = (_resolved(item, folder) for item in answer.packages if item.name not in fixed)
            return tuple(sorted(found, key=lambda item: item.name))

    def requirers(self, question: Question) -> dict[str, tuple[str, ...]]:
        """Which distributions of the closure require each one, by name; for messages only."""
        with TemporaryDirectory(prefix="flbuild-resolve-") as name:
            options = ("--format", "requirements.txt", "--annotation-style", "line")
            text = self._run(question, Path(name), *options, known=True)
        found: dict[str, tuple[str, ...]] = {}
        for line in text.splitlines():
            if match := re.match(r"([A-Za-z0-9._-]+)(?:==| @ ).*#\s+via\s+(.*)", line):
                sources = (source.strip() for source in match[2].split(","))
                found[canonicalize_name(match[1])] = tuple(
                    source for source in sources if not source.startswith("-")
                )
        return found

    def _run(self, question: Question, folder: Path, *options: str, known: bool) -> str:
        stubs = [f"{fixed.name} @ {write_stub(folder, fixed).as_uri()}" for fixed in question.fixed]
        (folder / "requirements.in").write_text("\n".join([*stubs, *question.requirements, ""]))
        extra = []
        for option, lines in (("overrides", question.overrides), ("constraints", question.constraints)):
            if lines:
                (folder / f"{option}.txt").write_text("\n".join([*lines, ""]))
                extra += [f"--{option}", f"{option}.txt"]
        command = [
            uv.find_uv_bin(),
            *("pip", "compile", "requirements.in"),
            *("--python-platform", uv_platform(question.environment)),
            *("--python-version", question.environment.python, "--python", sys.executable),
            *("--only-binary", ":all:", "--generate-hashes" if "pylock.toml" in options else "--no-header"),
            *("--no-config", "--no-python-downloads", "--no-progress", "--color", "never"),
            *("--cache-dir", str(self._settings.cache_dir / "uv")),
            *extra,
            *options,
        ]
        index, variables = self._index()
        # A question that is answered from the cache needs no round of requests to ask whether it still holds.
        attempts = [["--offline"]] if known or self._offline else [[]]
        attempts += [[]] if known and not self._offline else []
        for offline in attempts:
            done = subprocess.run(
                [*command, *index, *offline],
                cwd=folder,
                env=_environment(self._settings, variables),
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode == 0:
                return done.stdout
        raise self._failure(question, done.stderr.replace(f"{folder}/", ""))

    def _index(self) -> tuple[list[str], dict[str, str]]:
        """Options and variables that lead uv to the index; credentials never become an argument."""
        index = self._settings.index(INDEX)
        if index.url is None:
            raise HostError(
                f"index '{INDEX}' has no URL", remedy=f"set {index_variable(INDEX)} to a URL or a folder"
            )
        if not is_url(index.url):
            folder = Path(index.url)
            if any(folder.glob("*.whl")):
                return ["--no-index", "--find-links", str(folder)], {}
            return [], {"UV_DEFAULT_INDEX": folder.as_uri()}
        url = index.url
        if index.username is not None:
            parts = urlsplit(url)
            user = quote(index.username.get_secret_value(), safe="")
            password = quote(index.password.get_secret_value(), safe="") if index.password else ""
            url = urlunsplit(parts._replace(netloc=f"{user}:{password}@{parts.netloc}"))
        return [], {"UV_DEFAULT_INDEX": url}

    def _failure(self, question: Question, text: str) -> FlbuildError:
        text = self._settings.redact(text.strip())
        shown = "\n".join(text.splitlines()[:_SHOWN_LINES])
        if self._offline and "network was disabled" in text:
            return HostError(
                "the closure needs something never seen on this machine, and --offline forbids asking",
                cause=shown,
                remedy="run once without --offline",
            )
        if any(sign in text for sign in _NO_ANSWER):
            return UnreachableError(
                f"index '{INDEX}' could not be asked while resolving the closure",
                cause=shown,
                remedy=f"set {index_variable(INDEX)} to a mirror or a local folder of wheels, or retry later",
            )
        if "No solution found" not in text:
            return HostError("uv failed while resolving the closure", cause=shown, remedy="flbuild doctor")
        return RecipeError(
            f"no versions satisfy the recipe on {question.environment.platform} with Python "
            f"{question.environment.python} and glibc {question.environment.glibc}",
            cause=re.sub(r"^error: .*\n\s*cause: ", "", shown),
            remedy=_way_out(text),
        )


def uv_platform(environment: Environment) -> str:
    """uv's name of the newest platform that the environment can run."""
    fitting = [minor for minor in _GLIBC_CHOICES if minor <= environment.glibc_minor]
    if not fitting:
        raise HostError(
            f"the base's glibc {environment.glibc} is older than any that wheels are resolved for (2.17)",
            remedy="choose a newer base",
        )
    return f"{environment.machine}-manylinux_2_{max(fitting)}"


def pins(resolved: Iterable[Resolved]) -> tuple[str, ...]:
    """An answer as constraints for a further question."""
    return tuple(f"{item.name}=={item.version}" for item in resolved)


def _way_out(text: str) -> str:
    """The next step that fits uv's explanation."""
    names = re.findall(r"Wheels are (?:required|available) for `([^`]+)`", text)
    if names:
        name = canonicalize_name(names[0])
        return (
            f"{name} has no wheel that fits: pin a version that has one, name an index that has it, "
            "or let flbuild build it (`git` and `commit` in the recipe)"
        )
    return "change a pin, or declare the conflict in `overrides` of the recipe"


def _preferences(question: Question) -> str:
    """Earlier versions in the form of an earlier output, where uv looks for what it should keep.

    What a requirement or an override settles is left out: uv would say that it cannot keep it.
    """
    settled = {canonicalize_name(Requirement(text).name) for text in question.overrides}
    settled |= {canonicalize_name(item.name) for item in question.fixed}
    lines = []
    for name, version in sorted(question.preferences.items()):
        if canonicalize_name(name) not in settled:
            lines += ["[[packages]]", f'name = "{name}"', f'version = "{version}"']
    header = ['lock-version = "1.0"', 'created-by = "flbuild"']
    return "\n".join([*header, *lines, ""]) if lines else ""


def _environment(settings: Settings, variables: Mapping[str, str]) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(_UV_TRANSPORT) or not name.startswith(("UV_", "VIRTUAL_ENV"))
    }
    if settings.ca_bundle is not None:
        kept["SSL_CERT_FILE"] = str(settings.ca_bundle)
    if settings.proxy is not None:
        kept["HTTP_PROXY"] = kept["HTTPS_PROXY"] = settings.proxy.get_secret_value()
    return {**kept, **variables}


def _resolved(item: Package, folder: Path) -> Resolved:
    wheels = tuple(_candidate(wheel, folder) for wheel in item.wheels or ())
    return Resolved(str(item.name), str(item.version), wheels)


def _candidate(wheel: PackageWheel, folder: Path) -> Candidate:
    if wheel.path is not None:
        location = str((folder / wheel.path).resolve())
    else:
        location = wheel.url or ""
        if location.startswith("file:"):
            location = url2pathname(urlsplit(location).path)
    filename = wheel.name or unquote(location.rstrip("/").rsplit("/", 1)[-1])
    return Candidate(filename, location, wheel.hashes.get("sha256"), wheel.size)
