"""From a wheel that an index offers to a pin: file name, SHA-256, size, and METADATA that can be read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import requests
from packaging.metadata import parse_email
from packaging.version import Version

from flbuild.errors import HostError, RecipeError, RemoteMovedError, VerificationError
from flbuild.files import CHUNK, sha256_file, write_atomic
from flbuild.finding import Finding
from flbuild.index.client import IndexClient, is_url, short_cause
from flbuild.index.remote import RemoteWheel, read_remote
from flbuild.index.store import FileStore
from flbuild.index.tags import Environment
from flbuild.index.wheels import (
    check_members,
    check_metadata,
    check_native,
    check_wheel,
    read_facts,
    states_no_glibc,
)
from flbuild.lock.model import LockedFile
from flbuild.lock.resolve import Candidate, Resolved
from flbuild.progress import Progress


class Pinner:
    """Pins wheels for one environment.

    Args:
        old: what the lock holds now, by name; an entry is kept as it is while its version stays.
        moving: names whose entry may change although the version stays (`--upgrade`).
    """

    def __init__(
        self,
        client: IndexClient,
        store: FileStore,
        environment: Environment,
        progress: Progress,
        *,
        old: Mapping[str, LockedFile],
        moving: frozenset[str] = frozenset(),
    ) -> None:
        self._client = client
        self._store = store
        self._environment = environment
        self._progress = progress
        self._old = old
        self._moving = moving

    def pin_all(self, resolved: Iterable[Resolved], index: str) -> tuple[LockedFile, ...]:
        """The pins of a resolver's answer, in its order."""
        items = tuple(resolved)
        with self._progress.task("pin wheels", len(items), unit="items") as task:

            def pin(item: Resolved) -> LockedFile:
                file = self.pin(item.name, item.version, index, item.wheels)
                task.advance(1)
                return file

            return _in_parallel(pin, items, self._client.settings.jobs)

    def pin(self, name: str, version: str, index: str, wheels: Sequence[Candidate]) -> LockedFile:
        """The pin of the wheel that fits best.

        Raises:
            RecipeError: none fits; says why.
            RemoteMovedError: the index lists other bytes under the locked file's name.
            VerificationError: the wheel's METADATA is broken.
        """
        if old := self.kept(name, version, index):
            self._require_unmoved(old, wheels)
            return old
        best = self._environment.best(wheel.filename for wheel in wheels)
        if best is None:
            raise RecipeError(
                f"{name} {version} from index '{index}' does not fit the image: "
                f"{self._environment.why_not(wheel.filename for wheel in wheels)}",
                remedy="pin a version that has such a wheel, or let flbuild build it from git",
            )
        chosen = next(wheel for wheel in wheels if wheel.filename == best)
        sha256, size = self._identity(chosen, index)
        file = LockedFile(name=name, version=version, index=index, filename=best, sha256=sha256, size=size)
        metadata = self.metadata(file, chosen.location)
        raw, _ = parse_email(metadata)
        return file.model_copy(update={"requires_python": raw.get("requires_python")})

    def metadata(self, file: LockedFile, location: str | None = None) -> bytes:
        """METADATA of a pinned wheel: remembered, from its end on the index, or from the file itself."""
        remembered = self._client.settings.cache_dir / "metadata" / file.sha256
        if remembered.is_file():
            return remembered.read_bytes()
        unclear = states_no_glibc(file.filename)
        remote = None if unclear else self._remote(location, file.index)
        if remote is None:
            path = self._store.fetch(file)
            content = read_facts(path).metadata
            refuse(check_wheel(path, self._environment, deep=unclear))
        else:
            content = remote.metadata
            findings = [
                *check_metadata(file.filename, content),
                *check_members(file.filename, remote.members),
            ]
            if remote.native is not None:
                findings += check_native(file.filename, *remote.native, self._environment)
            refuse(findings)
        write_atomic(remembered, content)
        return content

    def kept(self, name: str, version: str, index: str) -> LockedFile | None:
        """The locked entry of this version, if it still counts: same index, and a wheel that fits."""
        old = self._old.get(name)
        if (
            old is None
            or name in self._moving
            or old.index != index
            or Version(old.version) != Version(version)
        ):
            return None
        return old if self._environment.rank(old.filename) is not None else None

    def _require_unmoved(self, old: LockedFile, wheels: Iterable[Candidate]) -> None:
        for wheel in wheels:
            if wheel.filename == old.filename and wheel.sha256 not in (None, old.sha256):
                raise RemoteMovedError(
                    f"index '{old.index}' lists other bytes under the name of the locked {old.filename}",
                    cause=f"the lock has {old.sha256}, the index {wheel.sha256}",
                    remedy=f"find out why it was replaced; accept it with flbuild lock --upgrade {old.name}",
                )

    def _identity(self, wheel: Candidate, index: str) -> tuple[str, int]:
        if not is_url(wheel.location):
            path = Path(wheel.location)
            return sha256_file(path), path.stat().st_size
        if wheel.sha256 is not None:
            return wheel.sha256, wheel.size if wheel.size is not None else self._size(wheel, index)
        return self._unhashed(wheel, index)

    def _size(self, wheel: Candidate, index: str) -> int:
        with self._get(wheel.location, index, wheel.filename, stream=True) as response:
            length = response.headers.get("Content-Length")
        return int(length) if length else self._unhashed(wheel, index)[1]

    def _unhashed(self, wheel: Candidate, index: str) -> tuple[str, int]:
        """Fetch a file of which the index gives no hash; what arrives over TLS is what is pinned."""
        with TemporaryDirectory(prefix="flbuild-pin-") as folder:
            path = Path(folder) / wheel.filename
            with (
                self._get(wheel.location, index, wheel.filename, stream=True) as response,
                path.open("wb") as target,
            ):
                for chunk in response.iter_content(CHUNK):
                    target.write(chunk)
            stored = self._store.add(path)
        return stored.parent.name, stored.stat().st_size

    def _get(self, url: str, index: str, name: str, *, stream: bool) -> requests.Response:
        if self._client.offline:
            raise HostError(
                f"{name} has to be looked at, and --offline forbids it", remedy="run once without it"
            )
        try:
            response = self._client.http.get(url, auth=self._client.auth(index, url), stream=stream)
        except requests.RequestException as error:
            raise self._client.unreachable(index, name, short_cause(error)) from error
        if response.status_code >= 400:
            raise self._client.unreachable(index, name, f"it answers with status {response.status_code}")
        return response

    def _remote(self, location: str | None, index: str) -> RemoteWheel | None:
        """What a wheel on an index says about itself, if it is not on this machine anyway."""
        if location is None or not is_url(location) or self._client.offline:
            return None
        return read_remote(self._client.http, location, self._client.auth(index, location))


def refuse(findings: list[Finding]) -> None:
    """Nothing if no finding is an error.

    Raises:
        VerificationError: names every error.
    """
    errors = [finding for finding in findings if finding.severity == "error"]
    if errors:
        raise VerificationError(
            "\n".join(f"{finding.subject}: {finding.message}" for finding in errors), remedy=errors[0].remedy
        )


def _in_parallel(
    work: Callable[[Resolved], LockedFile], items: tuple[Resolved, ...], jobs: int
) -> tuple[LockedFile, ...]:
    pool = ThreadPoolExecutor(max(jobs, 8))
    try:
        return tuple(pool.map(work, items))
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
