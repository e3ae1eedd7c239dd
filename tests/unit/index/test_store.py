from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from flbuild.errors import HostError, RemoteGoneError, RemoteMovedError
from flbuild.files import sha256_bytes, sha256_file
from flbuild.index.client import IndexClient
from flbuild.index.store import FileRef, FileStore
from flbuild.progress import Silent


def store_for(settings, **options):
    progress = Silent()
    return FileStore(settings, IndexClient(settings, progress, wait=0), progress, **options)


def reference(path, index="pypi"):
    return FileRef(path.name.split("-")[0], index, path.name, sha256_file(path), path.stat().st_size)


@pytest.fixture
def wheel(tmp_path, make_wheel):
    return make_wheel(tmp_path / "made", "thing", "1.0", files={"thing.py": os.urandom(3 << 20)})


def test_a_file_is_fetched_once_and_then_known(wheel, fake_index, make_settings):
    fake_index.add(wheel)
    settings = make_settings(pypi=fake_index.url())
    path = store_for(settings).fetch(reference(wheel))
    assert path.read_bytes() == wheel.read_bytes()
    fake_index.requests.clear()
    assert store_for(settings).fetch(reference(wheel)) == path
    assert not fake_index.requests


def test_many_files_come_back_by_hash(tmp_path, fake_index, make_wheel, make_settings):
    wheels = [make_wheel(tmp_path / "made", f"thing{number}", "1") for number in range(12)]
    for path in wheels:
        fake_index.add(path)
    found = store_for(make_settings(pypi=fake_index.url())).fetch_all([reference(path) for path in wheels])
    assert (
        {sha256_file(path) for path in found.values()} == {sha256_file(path) for path in wheels} == set(found)
    )


def test_a_find_links_folder_is_used_before_the_index(wheel, make_settings):
    settings = make_settings(pypi="http://127.0.0.1:9/simple", find_links=[wheel.parent])
    path = store_for(settings).fetch(reference(wheel))
    assert path != wheel
    assert path.read_bytes() == wheel.read_bytes()


def test_a_renamed_file_with_the_locked_bytes_is_accepted(wheel, make_settings):
    locked = reference(wheel)
    wheel.rename(wheel.with_name("other-name.whl"))
    settings = make_settings(pypi="http://127.0.0.1:9/simple", find_links=[wheel.parent])
    assert store_for(settings).fetch(locked).name == locked.filename


def test_a_find_links_file_with_other_bytes_is_passed_over_with_a_warning(wheel, fake_index, make_settings):
    fake_index.add(wheel)
    locked = reference(wheel)
    wheel.write_bytes(b"another build")
    settings = make_settings(pypi=fake_index.url(), find_links=[wheel.parent])
    progress = Silent()
    path = FileStore(settings, IndexClient(settings, progress, wait=0), progress).fetch(locked)
    assert sha256_file(path) == locked.sha256
    assert any("not the locked ones" in text for text in progress.warnings)


def test_b64_other_bytes_than_locked_are_refused_and_leave_nothing(wheel, fake_index, make_settings):
    fake_index.add(wheel, body=b"x" * wheel.stat().st_size)
    settings = make_settings(pypi=fake_index.url())
    with pytest.raises(RemoteMovedError, match="index and lock agree, so the bytes are wrong"):
        store_for(settings).fetch(reference(wheel))
    left = [path for path in (settings.cache_dir / "files").rglob("*") if path.is_file()]
    assert [path.name for path in left] == [".lock"]


def test_b64_a_replaced_release_blames_lock_or_replacement(wheel, fake_index, make_settings):
    body = b"the new build"
    fake_index.add(wheel, body=body, listed=sha256_bytes(body))
    with pytest.raises(RemoteMovedError, match="index and bytes agree, so the file was replaced"):
        store_for(make_settings(pypi=fake_index.url())).fetch(reference(wheel))


def test_b65_a_stale_hash_on_the_index_page_is_a_warning_when_the_bytes_are_locked(
    wheel, fake_index, make_settings
):
    fake_index.add(wheel, listed="0" * 64)
    settings = make_settings(pypi=fake_index.url())
    progress = Silent()
    path = FileStore(settings, IndexClient(settings, progress, wait=0), progress).fetch(reference(wheel))
    assert sha256_file(path) == sha256_file(wheel)
    assert any("stale hash" in text for text in progress.warnings)


def test_b65_page_bytes_and_lock_that_all_differ_are_said_to_differ(wheel, fake_index, make_settings):
    fake_index.add(wheel, listed="0" * 64, body=b"other")
    with pytest.raises(RemoteMovedError, match="no two of them agree"):
        store_for(make_settings(pypi=fake_index.url())).fetch(reference(wheel))


def test_an_index_without_hashes_cannot_be_blamed(wheel, fake_index, make_settings):
    fake_index.add(wheel, listed=None, body=b"other")
    with pytest.raises(RemoteMovedError, match="gives no hash"):
        store_for(make_settings(pypi=fake_index.url())).fetch(reference(wheel))


def test_a_broken_connection_continues_where_it_broke(wheel, fake_index, make_settings):
    served = fake_index.add(wheel)
    fake_index.cut_after[served.filename] = [2 << 20, 100_000]
    path = store_for(make_settings(pypi=fake_index.url())).fetch(reference(wheel))
    assert path.read_bytes() == wheel.read_bytes()
    assert fake_index.asked("/files/") == 3


def test_the_beginning_a_killed_run_left_is_continued(wheel, fake_index, make_settings):
    fake_index.add(wheel)
    settings = make_settings(pypi=fake_index.url())
    locked = reference(wheel)
    part = settings.cache_dir / "files" / locked.sha256 / f".{locked.filename}.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(wheel.read_bytes()[:1_000_000])
    assert store_for(settings).fetch(locked).read_bytes() == wheel.read_bytes()
    assert not part.exists()


def test_the_beginning_of_another_file_is_thrown_away(wheel, fake_index, make_settings):
    fake_index.add(wheel)
    settings = make_settings(pypi=fake_index.url())
    locked = reference(wheel)
    part = settings.cache_dir / "files" / locked.sha256 / f".{locked.filename}.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(b"\0" * (locked.size + 5))
    assert store_for(settings).fetch(locked).read_bytes() == wheel.read_bytes()


def test_a_server_that_cannot_continue_is_asked_for_all_of_it(wheel, fake_index, make_settings):
    served = fake_index.add(wheel)
    fake_index.ranges = False
    fake_index.cut_after[served.filename] = [1 << 20]
    path = store_for(make_settings(pypi=fake_index.url())).fetch(reference(wheel))
    assert path.read_bytes() == wheel.read_bytes()
    assert fake_index.asked("/files/") == 2


def test_a_find_links_file_of_the_same_size_is_told_apart(wheel, make_settings):
    locked = reference(wheel)
    wheel.with_name("a-twin.whl").write_bytes(b"x" * locked.size)
    settings = make_settings(pypi="http://127.0.0.1:9/simple", find_links=[wheel.parent])
    assert sha256_file(store_for(settings).fetch(locked)) == locked.sha256


def test_a_damaged_stored_file_is_fetched_again(wheel, fake_index, make_settings):
    fake_index.add(wheel)
    store = store_for(make_settings(pypi=fake_index.url()))
    path = store.fetch(reference(wheel))
    path.write_bytes(b"damage")
    assert store.fetch(reference(wheel)).read_bytes() == wheel.read_bytes()


def test_a_file_the_index_dropped_is_gone(wheel, fake_index, make_wheel, make_settings, tmp_path):
    fake_index.add(make_wheel(tmp_path / "new", "thing", "2.0"))
    with pytest.raises(RemoteGoneError, match=r"thing-1\.0.*no longer on index 'pypi'"):
        store_for(make_settings(pypi=fake_index.url())).fetch(reference(wheel))


def test_a_listed_file_that_is_not_there_is_gone(wheel, fake_index, make_settings):
    fake_index.add(wheel)
    fake_index.answers["/files/"] = [404]
    with pytest.raises(RemoteGoneError, match="lists"):
        store_for(make_settings(pypi=fake_index.url())).fetch(reference(wheel))


def test_offline_fetches_nothing(wheel, fake_index, make_settings):
    fake_index.add(wheel)
    settings = make_settings(pypi=fake_index.url())
    IndexClient(settings, Silent()).files("pypi", "thing")
    with pytest.raises(HostError, match="--offline"):
        store_for(settings, offline=True).fetch(reference(wheel))
    assert not fake_index.asked("/files/")


def test_a_local_index_needs_no_network(wheel, make_settings):
    store = store_for(make_settings(pypi=wheel.parent), offline=True)
    assert store.fetch(reference(wheel)).read_bytes() == wheel.read_bytes()


def test_a_local_index_with_other_bytes_is_refused(wheel, make_settings):
    locked = reference(wheel)
    wheel.write_bytes(b"other")
    with pytest.raises(RemoteMovedError, match="another file of that name"):
        store_for(make_settings(pypi=wheel.parent)).fetch(locked)


def test_a_locally_built_file_is_stored_and_found(wheel, make_settings):
    store = store_for(make_settings())
    path = store.add(wheel)
    wheel.unlink()
    assert store.find(path.parent.name, path.name) == path


def test_one_file_wanted_many_times_at_once_is_fetched_once(wheel, fake_index, make_settings):
    fake_index.add(wheel)
    settings = make_settings(pypi=fake_index.url())
    with ThreadPoolExecutor(6) as pool:
        paths = set(pool.map(lambda _: store_for(settings).fetch(reference(wheel)), range(6)))
    assert len(paths) == 1
    assert fake_index.asked("/files/") == 1


FETCH = """
import os, sys
from flbuild.index.client import IndexClient
from flbuild.index.store import FileRef, FileStore
from flbuild.progress import Silent
from flbuild.settings import load_settings

settings = load_settings(None, os.environ)
store = FileStore(settings, IndexClient(settings, Silent()), Silent())
print("ready", flush=True)
store.fetch(FileRef(sys.argv[1], "pypi", sys.argv[2], sys.argv[3], int(sys.argv[4])))
"""


def test_a_fetch_that_is_killed_leaves_no_half_file_and_the_next_one_continues(
    wheel, fake_index, make_settings
):
    fake_index.add(wheel)
    locked = reference(wheel)
    settings = make_settings(pypi=fake_index.url())
    final = settings.cache_dir / "files" / locked.sha256 / locked.filename
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("FLBUILD_", "PIP_"))},
        "FLBUILD_CACHE_DIR": str(settings.cache_dir),
        "FLBUILD_INDEX_PYPI_URL": fake_index.url(),
    }
    fake_index.slow = 0.1
    for _ in range(2):
        command = [sys.executable, "-c", FETCH, locked.name, locked.filename, locked.sha256, str(locked.size)]
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            time.sleep(random.uniform(0.1, 1.0))
            process.kill()
        assert not final.exists()
    fake_index.slow = 0
    assert store_for(settings).fetch(locked).read_bytes() == wheel.read_bytes()
    assert [path.name for path in sorted(final.parent.iterdir())] == [".lock", locked.filename]
