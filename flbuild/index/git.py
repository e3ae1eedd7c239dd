"""Git sources: one commit, fetched once, named by the hash of its archive."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, cast

from flbuild.errors import HostError, RemoteGoneError, RemoteMovedError, UnreachableError
from flbuild.files import CHUNK, sha256_bytes
from flbuild.settings import Settings, redact, redact_url

_ARCHIVE_CONFIG = ("-c", "tar.umask=0002", "-c", "core.autocrlf=false", "-c", "core.eol=lf")
"""Git's defaults, for what a user may have set that would change an archive's bytes."""

_ABSENT = ("not our ref", "unadvertised object", "couldn't find remote ref", "no such remote ref")


class GitStore:
    """Commits of remote repositories, kept as bare repositories below the cache folder.

    Args:
        offline: never fetch; commits that are already here still count.
    """

    def __init__(self, settings: Settings, *, offline: bool = False) -> None:
        self._settings = settings
        self._offline = offline
        self._root = settings.cache_dir / "git"

    def commit(self, url: str, commit: str) -> Path:
        """A bare repository that holds the commit.

        Raises:
            RemoteGoneError: the repository answers, and does not have the commit.
            UnreachableError: it does not answer.
            HostError: offline and not here yet, or git is not installed.
        """
        repository = self._root / sha256_bytes(url.encode())[:16]
        repository.mkdir(parents=True, exist_ok=True)
        with _exclusive(repository):
            if not (repository / "HEAD").is_file():
                _git(repository, "init", "--quiet", "--bare")
            if _git(repository, "cat-file", "-e", f"{commit}^{{tree}}", check=False).returncode == 0:
                return repository
            if self._offline:
                raise HostError(
                    f"commit {commit[:12]} of {redact_url(url)} is not here, and --offline forbids fetching",
                    remedy="run once without --offline",
                )
            self._fetch(repository, url, commit)
        return repository

    def tag_commit(self, url: str, tag: str) -> str | None:
        """The commit that a tag of a remote repository names now, or None if there is no such tag."""
        done = self._remote("ls-remote", "--tags", "--", url, f"refs/tags/{tag}", f"refs/tags/{tag}^{{}}")
        names: dict[str, str] = {}
        for line in done.splitlines():
            commit, _, name = line.partition("\t")
            names[name] = commit
        return names.get(f"refs/tags/{tag}^{{}}") or names.get(f"refs/tags/{tag}")

    def require_tag(self, url: str, tag: str, commit: str) -> None:
        """Nothing if the tag still names the commit.

        Raises:
            RemoteMovedError: it names another one.
            RemoteGoneError: it was deleted.
        """
        now = self.tag_commit(url, tag)
        if now is None:
            raise RemoteGoneError(
                f"tag {tag} of {redact_url(url)} was deleted; the lock has it at {commit[:12]}",
                remedy="the locked commit still counts; find out why the tag was deleted before you go on",
            )
        if now != commit:
            raise RemoteMovedError(
                f"tag {tag} of {redact_url(url)} moved: the lock has {commit[:12]}, it names {now[:12]} now",
                cause="the release was deleted and tagged again",
                remedy="review the new commit; put it into the recipe, or keep the locked one",
            )

    def _fetch(self, repository: Path, url: str, commit: str) -> None:
        try:
            self._remote("-C", str(repository), "fetch", "--quiet", "--depth=1", "--", url, commit)
        except RemoteGoneError:
            # Some servers give only what a branch or a tag points at: then all of them.
            heads = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
            self._remote("-C", str(repository), "fetch", "--quiet", "--", url, *heads)
            if _git(repository, "cat-file", "-e", f"{commit}^{{tree}}", check=False).returncode:
                raise RemoteGoneError(
                    f"{redact_url(url)} has no commit {commit}",
                    cause="the branch was rewritten, or the commit is of another repository",
                    remedy=f"correct `commit` in the recipe, or {_mirror(redact_url(url))}",
                ) from None

    def _remote(self, *arguments: str) -> str:
        if self._offline:
            raise HostError("a git repository had to be asked, and --offline forbids it")
        done = _run(("git", *arguments), proxy=self._settings)
        if done.returncode == 0:
            return done.stdout
        text = redact(done.stderr.strip())
        url = next((redact_url(item) for item in arguments if "://" in item or "@" in item), "the repository")
        if any(sign in text for sign in _ABSENT):
            raise RemoteGoneError(f"{url} does not have what was asked for", cause=text)
        raise UnreachableError(
            f"{url} could not be asked",
            cause=text,
            remedy=f"retry later, or {_mirror(url)}",
        )


def _mirror(url: str) -> str:
    return f"point git at a mirror: git config --global url.MIRROR.insteadOf {url}"


def archive_sha256(repository: Path, commit: str) -> str:
    """The SHA-256 of the uncompressed `git archive` tar of a commit."""
    digest = hashlib.sha256()
    with _archive(repository, commit) as stream:
        while chunk := stream.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def save_archive(repository: Path, commit: str, path: Path) -> None:
    """Write the uncompressed `git archive` tar of a commit to `path`."""
    with _archive(repository, commit) as stream, path.open("wb") as target:
        shutil.copyfileobj(stream, target, CHUNK)


def export(repository: Path, commit: str, folder: Path) -> None:
    """Unpack the files of a commit into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    with _archive(repository, commit) as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
        archive.extractall(folder, filter="data")


@contextmanager
def _archive(repository: Path, commit: str) -> Iterator[IO[bytes]]:
    command = ["git", *_ARCHIVE_CONFIG, "-C", str(repository), "archive", "--format=tar", commit]
    with TemporaryFile() as errors:
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, env=_environment()) as process:
            stream = cast("IO[bytes]", process.stdout)
            yield stream
            # A reader of tar stops at its end mark, before the padding: git must not meet a closed pipe.
            while stream.read(CHUNK):
                pass
        if process.returncode:
            errors.seek(0)
            cause = errors.read().decode(errors="replace").strip()
            raise HostError(f"git archive of {commit[:12]} failed", cause=cause)


def _git(repository: Path, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = _run(("git", "-C", str(repository), *arguments))
    if check and done.returncode:
        raise HostError(f"git {arguments[0]} failed in {repository}", cause=done.stderr.strip())
    return done


def _run(command: tuple[str, ...], proxy: Settings | None = None) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, env=_environment(proxy))
    except FileNotFoundError:
        raise HostError("git is not installed", remedy="apt-get install git") from None


def _environment(settings: Settings | None = None) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("GIT_DIR", "GIT_WORK_TREE")}
    # A question on the terminal would wait for ever in a build; English messages can be told apart.
    kept |= {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    if settings is not None and settings.proxy is not None:
        kept["HTTP_PROXY"] = kept["HTTPS_PROXY"] = settings.proxy.get_secret_value()
    if settings is not None and settings.ca_bundle is not None:
        kept["GIT_SSL_CAINFO"] = str(settings.ca_bundle)
    return kept


@contextmanager
def _exclusive(repository: Path) -> Iterator[None]:
    with (repository / ".flbuild-lock").open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield
