from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from flbuild.errors import RemoteGoneError, RemoteMovedError, UnreachableError
from flbuild.index.client import IndexFile
from flbuild.lock.model import GitSource, Lock, LockedFile, LockedImage, LockedImageBase, LockedSource
from flbuild.verify.remote import Remotes, raise_worst, verify_remote

SHA, OTHER = "1" * 64, "2" * 64
LOCKED, MOVED = f"sha256:{SHA}", f"sha256:{OTHER}"
COMMIT = "3" * 40
FILE = LockedFile(
    name="six", version="1.0", index="pypi", filename="six-1.0-py3-none-any.whl", sha256=SHA, size=1
)


@dataclass
class World:
    """Everything that can be asked, as it is now."""

    digests: dict[str, str] = field(default_factory=lambda: {"v1": LOCKED, LOCKED: LOCKED})
    tags: dict[str, str] = field(default_factory=lambda: {"v5": COMMIT})
    hashes: dict[str, str | None] = field(default_factory=lambda: {FILE.filename: SHA})
    down: bool = False
    linked: tuple[IndexFile, ...] = ()
    asked: list[str] = field(default_factory=list)

    def manifest(self, reference):
        if self.down:
            raise UnreachableError("the registry does not answer")
        found = self.digests.get(reference.digest or reference.tag)
        if found is None:
            raise RemoteGoneError("no such manifest")
        return SimpleNamespace(digest=found)

    def require_tag(self, url, tag, commit):
        if self.tags.get(tag) is None:
            raise RemoteGoneError(f"tag {tag} was deleted")
        if self.tags[tag] != commit:
            raise RemoteMovedError(f"tag {tag} moved")

    def commit(self, url, commit):
        assert commit == COMMIT

    def files(self, index, name):
        self.asked.append(name)
        if self.down:
            raise UnreachableError("the index does not answer")
        return tuple(a_file(filename, sha256) for filename, sha256 in self.hashes.items())

    def find_links(self, name):
        return self.linked


def a_file(filename, sha256):
    return IndexFile("six", "1.0", filename, f"https://files.example/{filename}", "wheel", sha256)


@pytest.fixture
def world():
    return World()


def a_lock():
    base = LockedImageBase(
        reference="quay.example/team/base:v1",
        digest=LOCKED,
        digest_kind="image",
        manifest=LOCKED,
        media_type="application/x",
        config=LOCKED,
        layers=(),
    )
    source = LockedSource(
        name="gems",
        version="5",
        source=GitSource(git="https://git.example/gems", commit=COMMIT, tag="v5", archive_sha256=SHA),
        filename="gems-5-py3-none-any.whl",
        sha256=SHA,
        size=1,
    )
    image = LockedImage(
        recipe=LOCKED,
        platform="linux/amd64",
        python="3.11",
        base=base,
        sources=(source,),
        packages=(FILE,),
        targets={"ci": (FILE,)},
    )
    return Lock(images={"one": image, "two": image})


def ask(world):
    return list(verify_remote(a_lock(), Remotes(world, world, world)))


def test_b32_what_is_as_it_was_locked_is_asked_for_once(world):
    found = ask(world)
    assert [item.error for item in found] == [None] * 3
    assert found[0].images == ("one", "two")
    assert world.asked == ["six"]
    raise_worst(found)


@pytest.mark.parametrize(
    ("now", "error", "words"),
    [
        ({"v1": MOVED, LOCKED: LOCKED}, RemoteMovedError, "still there"),
        ({"v1": MOVED}, RemoteMovedError, "the locked digest is gone"),
        ({}, RemoteGoneError, "is gone; the lock has it at"),
    ],
)
def test_b32_a_base_that_moved_is_told_from_one_that_is_gone(world, now, error, words):
    world.digests = now
    with pytest.raises(error, match=words):
        raise_worst(ask(world))


@pytest.mark.parametrize(("tags", "error"), [({"v5": "4" * 40}, RemoteMovedError), ({}, RemoteGoneError)])
def test_b32_b68_a_release_tag_that_moved_or_was_deleted_is_seen(world, tags, error):
    world.tags = tags
    with pytest.raises(error):
        raise_worst(ask(world))


@pytest.mark.parametrize(
    ("hashes", "error"), [({FILE.filename: OTHER}, RemoteMovedError), ({}, RemoteGoneError)]
)
def test_b32_b64_a_file_with_other_bytes_is_told_from_one_that_is_gone(world, hashes, error):
    world.hashes = hashes
    with pytest.raises(error):
        raise_worst(ask(world))


def test_an_index_that_gives_no_hash_gives_no_reason_to_doubt(world):
    world.hashes = {FILE.filename: None}
    raise_worst(ask(world))


def test_b32_what_does_not_answer_is_neither_moved_nor_gone(world):
    world.down = True
    found = ask(world)
    with pytest.raises(UnreachableError, match="2 of 3 inputs"):
        raise_worst(found)


def test_of_several_errors_the_one_that_moved_decides(world):
    world.down, world.tags = True, {"v5": "4" * 40}
    with pytest.raises(RemoteMovedError, match="3 of 3 inputs"):
        raise_worst(ask(world))


@pytest.mark.parametrize(("sha256", "there"), [(SHA, True), (OTHER, False)])
def test_a_linked_file_with_the_locked_hash_needs_no_index(world, sha256, there):
    world.hashes, world.linked = {}, (a_file(FILE.filename, sha256),)
    assert (ask(world)[-1].error is None) is there
