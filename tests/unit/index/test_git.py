from __future__ import annotations

import subprocess

import pytest

from flbuild.errors import HostError, RemoteGoneError, RemoteMovedError, UnreachableError
from flbuild.index.git import GitStore, archive_sha256, export

AUTHOR = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")


def git(folder, *arguments):
    command = ["git", *AUTHOR, "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


class Upstream:
    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()
        git(folder, "init", "-q", "-b", "main")

    @property
    def url(self):
        return self.folder.as_uri()

    def commit(self, text):
        (self.folder / "package").mkdir(exist_ok=True)
        (self.folder / "package" / "code.py").write_text(text)
        git(self.folder, "add", ".")
        git(self.folder, "commit", "-q", "-m", text)
        return git(self.folder, "rev-parse", "HEAD")


@pytest.fixture
def upstream(tmp_path):
    return Upstream(tmp_path / "upstream")


def test_a_commit_is_fetched_and_exported(tmp_path, upstream, make_settings):
    commit = upstream.commit("one")
    upstream.commit("two")
    repository = GitStore(make_settings()).commit(upstream.url, commit)
    export(repository, commit, tmp_path / "out")
    assert (tmp_path / "out" / "package" / "code.py").read_text() == "one"
    assert not (tmp_path / "out" / ".git").exists()


def test_a_commit_that_is_here_needs_no_network(upstream, make_settings):
    commit = upstream.commit("one")
    settings = make_settings()
    GitStore(settings).commit(upstream.url, commit)
    assert GitStore(settings, offline=True).commit(upstream.url, commit).is_dir()
    with pytest.raises(HostError, match="--offline"):
        GitStore(settings, offline=True).commit(upstream.url, "0" * 40)


def test_the_archive_hash_is_of_the_commit_and_not_of_the_user(
    tmp_path, upstream, make_settings, monkeypatch
):
    commit = upstream.commit("one")
    repository = GitStore(make_settings()).commit(upstream.url, commit)
    expected = archive_sha256(repository, commit)
    assert archive_sha256(upstream.folder, commit) == expected
    config = tmp_path / "gitconfig"
    config.write_text("[tar]\n\tumask = 0077\n[core]\n\tautocrlf = true\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    assert archive_sha256(repository, commit) == expected


def test_an_archive_that_cannot_be_made_says_why(upstream):
    upstream.commit("one")
    with pytest.raises(HostError, match=r"(?s)failed.*not a tree object"):
        archive_sha256(upstream.folder, "1" * 40)


def test_an_absent_commit_is_gone(upstream, make_settings):
    upstream.commit("one")
    with pytest.raises(RemoteGoneError, match="has no commit"):
        GitStore(make_settings()).commit(upstream.url, "1" * 40)


def test_a_repository_that_does_not_answer_is_unreachable(tmp_path, make_settings):
    url = (tmp_path / "absent").as_uri()
    with pytest.raises(UnreachableError) as caught:
        GitStore(make_settings()).commit(url, "1" * 40)
    assert caught.value.remedy.endswith(f"url.MIRROR.insteadOf {url}")


def test_a_tag_names_its_commit_even_when_annotated(upstream, make_settings):
    commit = upstream.commit("one")
    git(upstream.folder, "tag", "-a", "v1", "-m", "one")
    git(upstream.folder, "tag", "light")
    store = GitStore(make_settings())
    assert store.tag_commit(upstream.url, "v1") == commit
    assert store.tag_commit(upstream.url, "light") == commit
    assert store.tag_commit(upstream.url, "v2") is None


def test_b68_a_tag_that_was_deleted_and_set_again_has_moved(upstream, make_settings):
    commit = upstream.commit("one")
    git(upstream.folder, "tag", "v5.3.2")
    store = GitStore(make_settings())
    store.require_tag(upstream.url, "v5.3.2", commit)
    git(upstream.folder, "tag", "-d", "v5.3.2")
    with pytest.raises(RemoteGoneError, match="was deleted"):
        store.require_tag(upstream.url, "v5.3.2", commit)
    again = upstream.commit("two")
    git(upstream.folder, "tag", "v5.3.2")
    with pytest.raises(RemoteMovedError, match=rf"(?s)v5\.3\.2.*{commit[:12]}.*{again[:12]}"):
        store.require_tag(upstream.url, "v5.3.2", commit)
