"""Whether everything the lock pins can still be had, and is still what it was: bases, git tags, files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from flbuild.errors import FlbuildError, RemoteGoneError, RemoteMovedError
from flbuild.files import sha256_file
from flbuild.index.client import IndexClient
from flbuild.index.git import GitStore
from flbuild.lock.model import GitSource, Lock, LockedFile, LockedImage, LockedImageBase, SourceFile
from flbuild.registry.client import RegistryClient
from flbuild.registry.reference import Reference


@dataclass(frozen=True)
class Asked:
    """One input of the lock, the images that need it, and what is wrong with it."""

    input: str
    images: tuple[str, ...]
    error: FlbuildError | None = None


@dataclass(frozen=True)
class Remotes:
    """Who is asked."""

    registry: RegistryClient
    git: GitStore
    index: IndexClient


Question = Callable[[], None]


def verify_remote(lock: Lock, remotes: Remotes, jobs: int = 8) -> Iterator[Asked]:
    """Every input of every entry, each asked for once; one that fails does not keep others from it.

    Debian's archive is not asked: what it has shows when a base is made. Errors are RemoteMovedError,
    RemoteGoneError, RemoteRefusedError, UnreachableError.
    """
    questions: dict[str, tuple[Question, list[str]]] = {}
    for name, image in lock.images.items():
        for subject, question in _questions(image, remotes):
            questions.setdefault(subject, (question, []))[1].append(name)
    for tool in lock.build_tools:
        questions.setdefault(tool.filename, (_file(tool.name, tool, remotes.index), []))

    def ask(subject: str) -> Asked:
        question, names = questions[subject]
        try:
            question()
        except FlbuildError as error:
            return Asked(subject, tuple(names), error)
        return Asked(subject, tuple(names))

    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(ask, questions)


def raise_worst(asked: Sequence[Asked]) -> None:
    """Nothing if all is there.

    Raises:
        FlbuildError: of the first error's class, moved before gone before unreachable; it tells of all.
    """
    errors = sorted((item.error for item in asked if item.error is not None), key=lambda e: e.exit_code)
    if not errors:
        return
    if len(errors) == 1:
        raise errors[0]
    summary = f"{len(errors)} of {len(asked)} inputs of images.lock are not as they were locked"
    raise type(errors[0])("\n".join([summary, *map(str, errors)]))


def _questions(image: LockedImage, remotes: Remotes) -> Iterator[tuple[str, Question]]:
    if isinstance(image.base, LockedImageBase):
        yield image.base.reference, _base(image.base, remotes.registry)
    for source in image.sources:
        if isinstance(source.source, SourceFile):
            yield source.source.filename, _file(source.name, source.source, remotes.index)
        else:
            yield f"{source.source.git} {source.source.commit[:12]}", _git(source.source, remotes.git)
    for file in (*image.packages, *(file for files in image.targets.values() for file in files)):
        yield file.filename, _file(file.name, file, remotes.index)


def _base(base: LockedImageBase, client: RegistryClient) -> Question:
    def ask() -> None:
        reference = Reference.parse(base.reference)
        try:
            now = client.manifest(reference).digest
        except RemoteGoneError as error:
            raise RemoteGoneError(
                f"{reference} is gone; the lock has it at {base.digest}",
                cause=error.cause,
                remedy="keep a copy of the locked digest in a registry of your own, and set it as the mirror",
            ) from error
        if now == base.digest:
            return
        try:
            client.manifest(reference.at(base.digest))
            kept = "the locked digest is still there"
        except RemoteGoneError:
            kept = "the locked digest is gone"
        raise RemoteMovedError(
            f"{reference} moved: the lock has {base.digest}, it names {now} now; {kept}",
            cause="the tag was published again",
            remedy="flbuild lock --refresh-base locks the base as it is now; images then get a new digest",
        )

    return ask


def _git(source: GitSource, store: GitStore) -> Question:
    def ask() -> None:
        if source.tag is not None:
            store.require_tag(source.git, source.tag, source.commit)
        store.commit(source.git, source.commit)

    return ask


def _file(name: str, file: LockedFile | SourceFile, client: IndexClient) -> Question:
    def ask() -> None:
        try:
            listed = [item for item in client.files(file.index, name) if item.filename == file.filename]
        except FlbuildError:
            if _is_linked(name, file, client):
                return
            raise
        if not listed and not _is_linked(name, file, client):
            raise RemoteGoneError(
                f"index '{file.index}' no longer lists {file.filename}",
                cause="it was deleted, or moved to another index",
                remedy="put the file with the locked hash into a find-links folder, or lock another version",
            )
        hashes = {item.sha256 for item in listed if item.sha256 is not None}
        if hashes and file.sha256 not in hashes:
            raise RemoteMovedError(
                f"index '{file.index}' lists other bytes under the name of the locked {file.filename}",
                cause=f"the lock has {file.sha256}, the index {hashes.pop()}",
                remedy="find out why it was replaced; a file with the locked hash is accepted from anywhere",
            )

    return ask


def _is_linked(name: str, file: LockedFile | SourceFile, client: IndexClient) -> bool:
    """Whether a find-links folder or page has the file with the locked hash."""
    found = (item for item in client.find_links(name) if item.filename == file.filename)
    return any(
        file.sha256 == (item.sha256 if item.path is None else sha256_file(item.path)) for item in found
    )
