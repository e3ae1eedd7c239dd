from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

from flbuild.errors import BaseMovedError, HostError, RemoteMovedError
from flbuild.index.client import IndexClient
from flbuild.index.git import GitStore, archive_sha256
from flbuild.index.store import FileRef, FileStore
from flbuild.lock.model import GitSource
from flbuild.progress import Silent
from flbuild.render.context import Built, Wanted
from flbuild.render.supply import Supply


class Bases:
    """A place for Debian bases that has one file, or none."""

    def __init__(self, answer):
        self.answer = answer

    def layer(self, base, platform):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def supply(make_settings, fake_index, tmp_path):
    """`supply(bases, **index urls)`: a Supply whose index `pypi` is on loopback."""

    def make(bases=None, **indexes):
        settings = make_settings(pypi=fake_index.url(), jobs=1, **indexes)
        store = FileStore(settings, IndexClient(settings, Silent()), Silent())
        return Supply(store, GitStore(settings), bases or Bases(HostError("no base")), "linux/amd64")

    return make


def ref(path, index="pypi"):
    content = path.read_bytes()
    name = path.name.split("-")[0]
    return FileRef(name, index, path.name, hashlib.sha256(content).hexdigest(), len(content))


def test_files_are_had_from_their_indexes(supply, fake_index, make_wheel, tmp_path):
    wheel = make_wheel(tmp_path / "made", "demo", "1.0")
    fake_index.add(wheel)
    supplied = supply().get([Wanted("layers/x/demo.whl", ref(wheel))], tmp_path)
    assert supplied.paths["layers/x/demo.whl"].read_bytes() == wheel.read_bytes()
    assert supplied.missing == {}


def test_an_index_that_does_not_answer_takes_away_only_its_own_files(
    supply, fake_index, make_wheel, tmp_path
):
    demo, other = make_wheel(tmp_path / "made", "demo", "1.0"), make_wheel(tmp_path / "made", "other", "1.0")
    fake_index.add(demo)
    wanted = [Wanted("a", ref(other, "flagos")), Wanted("b", ref(demo))]
    supplied = supply(flagos="http://127.0.0.1:9/simple/").get(wanted, tmp_path)
    assert list(supplied.paths) == ["b"]
    assert "flagos" in str(supplied.missing["a"])


def test_other_bytes_than_the_locked_ones_are_an_error_not_a_gap(supply, fake_index, make_wheel, tmp_path):
    wheel = make_wheel(tmp_path / "made", "demo", "1.0")
    pin = ref(wheel)
    fake_index.add(wheel, body=b"x" * len(wheel.read_bytes()))
    with pytest.raises(RemoteMovedError):
        supply().get([Wanted("a", pin)], tmp_path)


@pytest.mark.parametrize("error", [HostError("no mmdebstrap"), BaseMovedError("the archive moved on")])
def test_a_base_that_cannot_be_made_here_is_a_gap(supply, debian_base, tmp_path, error):
    supplied = supply(Bases(error)).get([Wanted("base/root.tar.gz", debian_base)], tmp_path)
    assert supplied.missing == {"base/root.tar.gz": error}


def test_a_base_is_the_file_of_its_cache(supply, debian_base, tmp_path):
    supplied = supply(Bases(Path("/cache/base"))).get([Wanted("base/root.tar.gz", debian_base)], tmp_path)
    assert supplied.paths == {"base/root.tar.gz": Path("/cache/base")}


def test_the_plugin_is_found_in_the_store_or_named_as_missing(supply, tmp_path):
    supplied = supply().get([Wanted("layers/plugin/p.whl", Built("p.whl", "f" * 64))], tmp_path)
    assert supplied.missing["layers/plugin/p.whl"].remedy == "flbuild wheel plugin"


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "gems"
    folder.mkdir()
    (folder / "file").write_text("content\n")
    git = ("git", "-C", str(folder), "-c", "user.name=n", "-c", "user.email=e@example.org")
    for arguments in (("init", "--quiet"), ("add", "."), ("commit", "--quiet", "-m", "first")):
        subprocess.run([*git, *arguments], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    return folder, head.stdout.strip()


def test_a_git_source_is_the_archive_with_the_locked_hash(supply, repository, tmp_path):
    folder, commit = repository
    pin = GitSource(git=f"file://{folder}", commit=commit, archive_sha256=archive_sha256(folder, commit))
    supplied = supply().get([Wanted("sources/gems/gems.tar", pin)], tmp_path)
    content = supplied.paths["sources/gems/gems.tar"].read_bytes()
    assert hashlib.sha256(content).hexdigest() == pin.archive_sha256


def test_another_archive_than_the_locked_one_is_an_error(supply, repository, tmp_path):
    folder, commit = repository
    pin = GitSource(git=f"file://{folder}", commit=commit, archive_sha256="0" * 64)
    with pytest.raises(RemoteMovedError, match="is not the locked one"):
        supply().get([Wanted("a", pin)], tmp_path)
