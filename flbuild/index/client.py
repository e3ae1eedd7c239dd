"""Asking a named index which files it has: over HTTP (PEP 503, PEP 691) or in a local folder."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock
from urllib.parse import unquote, urljoin, urlsplit

import requests
from packaging.utils import canonicalize_name
from pypi_simple import (
    ACCEPT_ANY,
    DistributionPackage,
    ProjectPage,
    UnparsableFilenameError,
    UnsupportedContentTypeError,
    UnsupportedRepoVersionError,
    parse_filename,
)

from flbuild.errors import (
    FlbuildError,
    HostError,
    RemoteGoneError,
    RemoteRefusedError,
    UnreachableError,
    UsageError,
)
from flbuild.files import sha256_bytes, write_atomic
from flbuild.index.http import Http
from flbuild.progress import Progress
from flbuild.settings import IndexSettings, Settings, index_variable, redact_url


@dataclass(frozen=True)
class IndexFile:
    """A file that an index offers. `location` is a URL or an absolute local path."""

    name: str
    version: str
    filename: str
    location: str
    kind: str
    sha256: str | None = None
    size: int | None = None
    requires_python: str | None = None
    yanked: bool = False
    metadata: bool = False

    @property
    def path(self) -> Path | None:
        """The file itself, when the index is a local folder."""
        return None if is_url(self.location) else Path(self.location)


def is_url(place: str) -> bool:
    """Whether a location is fetched over HTTP."""
    return place.startswith(("http://", "https://"))


class IndexClient:
    """Looks projects up in named indexes; every answer is kept for the life of the client.

    Args:
        offline: ask nothing over the network; answers of earlier runs and local folders still count.
        wait: seconds before the second retry, doubled for each one after.
    """

    def __init__(
        self, settings: Settings, progress: Progress, *, offline: bool = False, wait: float = 0.5
    ) -> None:
        self.settings = settings
        self.progress = progress
        self.offline = offline
        self.http = Http(settings, wait=wait)
        self._known: dict[tuple[str, str], tuple[IndexFile, ...] | FlbuildError] = {}
        self._lock = Lock()

    def files(self, index_id: str, name: str) -> tuple[IndexFile, ...]:
        """Every file of a project on one index, in the index's order.

        Raises:
            RemoteGoneError: the index answers, and has no such project.
            RemoteRefusedError: it asks for credentials or for patience.
            UnreachableError: it does not answer, or answers with something that is no index page.
            UsageError: the index is unknown, or has no URL.
        """
        name = str(canonicalize_name(name))
        with self._lock:
            known = self._known.get((index_id, name))
        if known is None:
            try:
                known = self._look_up(index_id, name)
            except FlbuildError as error:
                known = error
            with self._lock:
                self._known[index_id, name] = known
        if isinstance(known, FlbuildError):
            raise known
        return known

    def find_links(self, name: str) -> tuple[IndexFile, ...]:
        """Files of a project in the find-links folders and pages of the settings."""
        name = str(canonicalize_name(name))
        found: list[IndexFile] = []
        for place in self.settings.find_links:
            if not is_url(place):
                found += _folder_files(Path(place), name)
            elif not self.offline:
                found += self._page_links(place, name)
        return tuple(found)

    def auth(self, index_id: str, url: str) -> tuple[str, str] | None:
        """Credentials for `url`: those of the index, and only on the index's own host."""
        index = self.settings.index(index_id)
        if index.url is None or urlsplit(index.url)[:2] != urlsplit(url)[:2] or index.username is None:
            return None
        return (
            index.username.get_secret_value(),
            index.password.get_secret_value() if index.password else "",
        )

    def unreachable(self, index_id: str, name: str, cause: str) -> UnreachableError:
        """The error for an index that gives no usable answer about `name`."""
        url = self.settings.index(index_id).url or ""
        return UnreachableError(
            f"index '{index_id}' ({redact_url(url)}) could not be asked for {name}",
            cause=self.settings.redact(cause),
            remedy=f"set {index_variable(index_id)} to a mirror or a local folder of wheels, or retry later",
        )

    def _look_up(self, index_id: str, name: str) -> tuple[IndexFile, ...]:
        index = self.settings.index(index_id)
        if index.url is None:
            raise UsageError(
                f"index '{index_id}', needed for {name}, has no URL",
                remedy=f"set {index_variable(index_id)}, or url in [index.{index_id}] of flbuild.toml",
            )
        if not is_url(index.url):
            return self._local(index_id, Path(index.url), name)
        return self._remote(index_id, index, index.url.rstrip("/") + f"/{name}/", name)

    def _local(self, index_id: str, folder: Path, name: str) -> tuple[IndexFile, ...]:
        if not folder.is_dir():
            raise UnreachableError(
                f"index '{index_id}', needed for {name}, is set to {folder}, which is not a folder",
                remedy=f"set {index_variable(index_id)} to a folder of wheels or to a URL",
            )
        project = folder / name
        page = project / "index.html"
        if page.is_file():
            base = page.as_uri()
            files = _page_files(ProjectPage.from_html(name, page.read_bytes(), base), name, base)
        elif project.is_dir():
            files = tuple(_folder_files(project, name))
        else:
            files = tuple(_folder_files(folder, name))
        if not files:
            raise self._absent(index_id, name, str(folder))
        return files

    def _remote(self, index_id: str, index: IndexSettings, url: str, name: str) -> tuple[IndexFile, ...]:
        cache = self.settings.cache_dir / "index" / f"{sha256_bytes(url.encode())[:16]}.json"
        if self.offline:
            return self._remembered(index_id, cache, name)
        try:
            response = self.http.get(url, headers={"Accept": ACCEPT_ANY}, auth=self.auth(index_id, url))
        except requests.RequestException as error:
            raise self.unreachable(index_id, name, short_cause(error)) from error
        if response.status_code == 404:
            raise self._absent(index_id, name, url)
        self._refuse_status(index_id, name, response.status_code)
        try:
            files = _page_files(ProjectPage.from_response(response, name), name, response.url)
        except (UnsupportedContentTypeError, UnsupportedRepoVersionError, ValueError) as error:
            raise self.unreachable(index_id, name, f"the answer is no index page: {error}") from error
        write_atomic(cache, json.dumps([asdict(file) for file in files]))
        return files

    def _remembered(self, index_id: str, cache: Path, name: str) -> tuple[IndexFile, ...]:
        try:
            return tuple(IndexFile(**item) for item in json.loads(cache.read_text()))
        except (OSError, ValueError, TypeError):
            raise HostError(
                f"index '{index_id}' was never asked for {name} here, and --offline forbids asking now",
                remedy="run once without --offline",
            ) from None

    def _refuse_status(self, index_id: str, name: str, status: int) -> None:
        if status in (401, 403):
            username, password = (index_variable(index_id, part) for part in ("USERNAME", "PASSWORD"))
            raise RemoteRefusedError(
                f"index '{index_id}' refuses access to {name} (status {status})",
                cause="missing or wrong credentials",
                remedy=f"set {username} and {password}",
            )
        if status == 429:
            raise RemoteRefusedError(
                f"index '{index_id}' asks for patience while looking up {name} (status 429)",
                cause="too many requests from this address",
                remedy=f"retry later, or set {index_variable(index_id)} to a mirror",
            )
        if status >= 400:
            raise self.unreachable(index_id, name, f"it answers with status {status}")

    def _absent(self, index_id: str, name: str, place: str) -> RemoteGoneError:
        return RemoteGoneError(
            f"index '{index_id}' ({redact_url(place)}) has no project {name}",
            cause="a misspelled name, a project that was removed, or a mirror that does not carry it",
            remedy=f"check the name and the index in the recipe, or set {index_variable(index_id)}",
        )

    def _page_links(self, url: str, name: str) -> list[IndexFile]:
        try:
            response = self.http.get(url)
            response.raise_for_status()
        except requests.RequestException as error:
            cause = self.settings.redact(short_cause(error))
            self.progress.warn(f"find-links page {redact_url(url)} cannot be read: {cause}")
            return []
        page = ProjectPage.from_html(name, response.content, response.url)
        return [file for file in _page_files(page, name, response.url) if file.name == name]


def short_cause(error: Exception) -> str:
    """The innermost reason of a chain of connection errors, in one line."""
    reason: BaseException = error
    while True:
        inner = getattr(reason, "reason", None) or (reason.args[0] if reason.args else None)
        if not isinstance(inner, BaseException):
            break
        reason = inner
    text = str(reason).rsplit("object at", 1)[-1].partition(">: ")[2] or str(reason)
    return " ".join(text.split()) or type(error).__name__


def _page_files(page: ProjectPage, name: str, base: str) -> tuple[IndexFile, ...]:
    files = (_from_page(package, name, base) for package in page.packages)
    return tuple(file for file in files if file is not None)


def _from_page(package: DistributionPackage, name: str, base: str) -> IndexFile | None:
    if package.version is None or package.package_type not in ("wheel", "sdist"):
        return None
    location = urljoin(base, package.url)
    if location.startswith("file://"):
        location = unquote(urlsplit(location).path)
    sha256 = package.digests.get("sha256")
    return IndexFile(
        name=str(canonicalize_name(package.project or name)),
        version=package.version,
        filename=package.filename,
        location=location,
        kind=package.package_type,
        sha256=sha256.lower() if sha256 else None,
        size=package.size,
        requires_python=package.requires_python,
        yanked=package.is_yanked,
        metadata=bool(package.has_metadata),
    )


def _folder_files(folder: Path, name: str) -> list[IndexFile]:
    found = []
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        try:
            project, version, kind = parse_filename(path.name, project_hint=name)
        except UnparsableFilenameError:
            continue
        if kind in ("wheel", "sdist") and canonicalize_name(project) == name and path.is_file():
            size = path.stat().st_size
            found.append(IndexFile(name, version, path.name, str(path.absolute()), kind, size=size))
    return found
