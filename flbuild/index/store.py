"""The file store: every wheel and source by its SHA-256, taken from wherever the right bytes are."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from flbuild.errors import HostError, RemoteGoneError
from flbuild.files import CHUNK, atomic_writer, is_sealed, seal, sha256_file
from flbuild.index.client import IndexClient, IndexFile, is_url
from flbuild.index.download import Wanted, download, mismatch
from flbuild.progress import Progress, Task
from flbuild.settings import Settings, index_variable


@dataclass(frozen=True)
class FileRef:
    """A pinned file that is no wheel of the lock, for example an sdist."""

    name: str
    index: str
    filename: str
    sha256: str
    size: int


class FileStore:
    """Files by hash below the cache folder; what is not there is found in find-links, then on its index.

    A file appears under its name only when all its bytes are there and have the right hash. Any number of
    threads and processes may use one store at a time.

    Args:
        offline: never fetch; the store, find-links folders and indexes that are local folders still count.
    """

    def __init__(
        self, settings: Settings, client: IndexClient, progress: Progress, *, offline: bool = False
    ) -> None:
        self._settings = settings
        self._client = client
        self._progress = progress
        self._offline = offline or client.offline
        self._root = settings.cache_dir / "files"

    def find(self, sha256: str, filename: str) -> Path | None:
        """The stored file, or None; a damaged one is removed."""
        path = self._root / sha256 / filename
        try:
            if is_sealed(path, sha256):
                return path
        except FileNotFoundError:
            return None
        if sha256_file(path) != sha256:
            path.unlink(missing_ok=True)
            return None
        seal(path, sha256)
        return path

    def add(self, path: Path) -> Path:
        """Store a file that was made here, and give its place in the store."""
        sha256 = sha256_file(path)
        return self.find(sha256, path.name) or self._take(path, path.name, sha256)

    def fetch(self, file: Wanted) -> Path:
        """The local path of a pinned file.

        Raises:
            RemoteMovedError: bytes were found, and they are not the locked ones; says which side is wrong.
            RemoteGoneError: the index no longer has the file.
            HostError: offline, or the index cannot be reached.
        """
        found = self.find(file.sha256, file.filename)
        if found is None:
            with self._progress.task(file.filename, file.size) as task:
                found = self._obtain(file, task)
        return found

    def fetch_all(self, files: Iterable[Wanted]) -> dict[str, Path]:
        """The local path of every file, by SHA-256; missing ones are fetched at the same time."""
        wanted = {file.sha256: file for file in files}
        paths: dict[str, Path] = {}
        missing: list[Wanted] = []
        for file in wanted.values():
            found = self.find(file.sha256, file.filename)
            if found is None:
                missing.append(file)
            else:
                paths[file.sha256] = found
        if missing:
            paths.update(self._obtain_all(missing))
        return paths

    def _obtain_all(self, missing: list[Wanted]) -> dict[str, Path]:
        paths = {}
        label = f"fetch {len(missing)} files"
        # The largest first: the last one to end decides how long it takes.
        missing = sorted(missing, key=lambda file: -file.size)
        with self._progress.task(label, sum(file.size for file in missing)) as task:
            pool = ThreadPoolExecutor(self._settings.jobs)
            try:
                started = {pool.submit(self._obtain, file, task): file for file in missing}
                for future in as_completed(started):
                    paths[started[future].sha256] = future.result()
            finally:
                pool.shutdown(wait=True, cancel_futures=True)
        return paths

    def _obtain(self, file: Wanted, task: Task) -> Path:
        with self._exclusive(file.sha256):
            if found := self.find(file.sha256, file.filename):
                task.advance(file.size)
                return found
            if local := self._from_folders(file):
                task.advance(file.size)
                return local
            return self._from_index(file, task)

    def _from_folders(self, file: Wanted) -> Path | None:
        """A find-links file with the right bytes, under any name."""
        for place in self._settings.find_links:
            if is_url(place):
                continue
            folder = Path(place)
            for path in sorted(folder.iterdir()) if folder.is_dir() else ():
                if not path.is_file():
                    continue
                if path.stat().st_size == file.size and sha256_file(path) == file.sha256:
                    return self._take(path, file.filename, file.sha256)
                if path.name == file.filename:
                    self._progress.warn(f"{path} is ignored: its bytes are not the locked ones of that name")
        return None

    def _from_index(self, file: Wanted, task: Task) -> Path:
        offers = [offer for offer in self._client.files(file.index, file.name) if _same(offer, file)]
        if not offers:
            raise RemoteGoneError(
                f"{file.filename} is no longer on index '{file.index}'",
                cause="the release was deleted, or the mirror does not carry it",
                remedy=f"put the file in a find-links folder, or set {index_variable(file.index)} to a place "
                f"that has it, or lock again with --upgrade {file.name}",
            )
        offer = offers[0]
        if offer.path is not None:
            if sha256_file(offer.path) != file.sha256:
                raise mismatch(file, offer, sha256_file(offer.path))
            task.advance(file.size)
            return self._take(offer.path, file.filename, file.sha256)
        if self._offline:
            raise HostError(
                f"{file.filename} is not on this machine, and --offline forbids fetching it",
                remedy="run once without --offline, or put the file in a find-links folder",
            )
        part = self._root / file.sha256 / f".{file.filename}.part"
        download(self._client, file, offer, part, task, self._progress)
        path = part.with_name(file.filename)
        seal(part, file.sha256)
        part.replace(path)
        return path

    def _take(self, source: Path, filename: str, sha256: str) -> Path:
        """Copy a file whose hash is known to be right; a copy, because its owner may change the original."""
        path = self._root / sha256 / filename
        with atomic_writer(path) as target, source.open("rb") as stream:
            shutil.copyfileobj(stream, target, CHUNK)
        if sha256_file(path) != sha256:
            path.unlink()
            raise HostError(f"{source} changed while it was read", remedy="run the command again")
        seal(path, sha256)
        return path

    @contextmanager
    def _exclusive(self, sha256: str) -> Iterator[None]:
        """One process or thread at a time fetches a file; the others wait and then find it."""
        folder = self._root / sha256
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / ".lock").open("w") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            yield


def _same(offer: IndexFile, file: Wanted) -> bool:
    return offer.filename == file.filename or offer.sha256 == file.sha256
