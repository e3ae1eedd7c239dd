from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
import time
import zipfile

import pytest

from flbuild.errors import BuildError, LockStaleError
from flbuild.files import sha256_file
from flbuild.index.client import IndexClient
from flbuild.index.git import GitStore, archive_sha256
from flbuild.index.store import FileStore
from flbuild.lock.model import GitSource, LockedSource, SourceFile
from flbuild.progress import Silent
from flbuild.wheel.builder import Project, WheelBuilder


def described(root, version="1.2", **changes):
    values = {
        "name": "demo",
        "version": version,
        "identity": "source of a test",
        "export": lambda folder: shutil.copytree(root, folder),
        "env": {},
        **changes,
    }
    return Project(**values)


def read(wheel, member):
    with zipfile.ZipFile(wheel.path) as archive:
        return archive.read(member).decode()


def test_a_wheel_is_built_normalised_and_stored(builder, project, tools, store):
    wheel = builder.build(described(project()), tools)
    assert wheel.filename == "demo-1.2-py3-none-any.whl"
    assert wheel.sha256 == sha256_file(wheel.path)
    assert store.find(wheel.sha256, wheel.filename) == wheel.path


def test_two_machines_build_the_same_bytes(builder, project, tools, tmp_path, monkeypatch, make_settings):
    """Another cache, temporary folder, umask, time zone, locale, hash seed, and two seconds later."""
    first = builder.build(described(project("one")), tools)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name, value in {
        "TMPDIR": str(elsewhere),
        "TZ": "Asia/Kathmandu",
        "LC_ALL": "tr_TR.UTF-8",
        "PYTHONHASHSEED": "77",
        "SOURCE_DATE_EPOCH": "1",
        "PIP_INDEX_URL": "http://user:secret@index.invalid/",
        "HOME": str(elsewhere),
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("tempfile.tempdir", None)
    settings = make_settings().model_copy(update={"cache_dir": tmp_path / "second"})
    store = FileStore(settings, IndexClient(settings, Silent()), Silent(), offline=True)
    for path in (tmp_path / "tools").iterdir():
        store.add(path)
    second = WheelBuilder(settings.cache_dir, store, GitStore(settings), Silent())
    before = os.umask(0o077)
    try:
        time.sleep(2.1 - time.time() % 2)
        other = second.build(described(project("two")), tools)
    finally:
        os.umask(before)
    assert other.path != first.path
    assert other.sha256 == first.sha256


def test_a_build_sees_nothing_of_the_callers_environment(builder, project, tools, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "secret")
    monkeypatch.setenv("VLLM_TARGET_DEVICE", "cuda")
    wheel = builder.build(described(project(), env={"WANTED": "1"}, epoch=1234567890), tools)
    text = read(wheel, "demo/environment.txt")
    names = {line.partition("=")[0] for line in text.splitlines()}
    assert not {"HF_TOKEN", "VLLM_TARGET_DEVICE"} & names
    assert "WANTED=1" in text
    assert "SOURCE_DATE_EPOCH=1234567890" in text


def test_a_wheel_is_built_once(builder, project, tools):
    source = project()
    first = builder.build(described(source), tools)

    def never(folder):
        raise AssertionError("built again")

    assert builder.build(described(source, export=never), tools) == first
    assert builder.find(described(source, export=never), tools) == first


def test_a_wheel_that_left_the_store_is_built_again(builder, project, tools):
    source = project()
    first = builder.build(described(source), tools)
    first.path.unlink()
    assert builder.find(described(source), tools) is None
    assert builder.build(described(source), tools).sha256 == first.sha256


@pytest.mark.parametrize("change", [{"identity": "x"}, {"version": "1.3"}, {"epoch": 5}])
def test_what_decides_a_wheel_decides_whether_it_is_built(builder, project, tools, change):
    source = project()
    builder.build(described(source), tools)
    assert builder.find(described(source, **change), tools) is None


def test_b62_a_backend_that_ignores_the_version_is_noticed(builder, project, tools):
    source = project(pyproject='[build-system]\nbuild-backend = "toybackend"\n# ignores\nname = "demo"\n')
    with pytest.raises(BuildError, match=r"demo built itself as 0\.0\.0, not as 1\.2"):
        builder.build(described(source), tools)


def test_a_failed_build_shows_its_last_lines_and_keeps_its_log(builder, project, tools):
    source = project(pyproject='[build-system]\nbuild-backend = "toybackend"\n# fail\nname = "demo"\n')
    with pytest.raises(BuildError) as caught:
        builder.build(described(source), tools)
    assert "| compiling the compiler" in str(caught.value)
    assert "no such luck" in caught.value.log.read_text()
    assert builder.find(described(source), tools) is None


def test_a_backend_outside_the_tools_is_named(builder, project, tools):
    source = project(pyproject='[build-system]\nbuild-backend = "hatchling.build"\n')
    with pytest.raises(BuildError, match=r"hatchling\.build, which the locked build tools do not offer"):
        builder.build(described(source), tools)


def test_a_lock_without_build_tools_is_stale(builder, project):
    with pytest.raises(LockStaleError, match="pins no build tools"):
        builder.build(described(project()), ())


def test_b59_a_source_without_git_builds_to_the_version_it_was_told(builder, project, tools, make_settings):
    """vllm#13130: setuptools-scm found no repository in the build; here the version is always an input."""
    root = project()
    git = ["git", "-C", str(root), "-c", "user.name=x", "-c", "user.email=x"]
    for arguments in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "x"]):
        subprocess.run([*git, *arguments], check=True)
    commit = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout
    source = GitSource(
        git=root.as_uri(), commit=commit.strip(), archive_sha256=archive_sha256(root, commit.strip())
    )
    wheel = builder.build_source("demo", "5.0.2", source, {"USE_C_EXTENSION": "0"}, tools)
    assert wheel.filename == "demo-5.0.2-py3-none-any.whl"
    assert "USE_C_EXTENSION=0" in read(wheel, "demo/environment.txt")


def test_an_archive_that_is_not_the_locked_one_is_refused(builder, repository, tools):
    commit = repository.git("rev-parse", "HEAD")
    source = GitSource(git=repository.root.as_uri(), commit=commit, archive_sha256="0" * 64)
    with pytest.raises(BuildError, match="is not the locked one"):
        builder.build_source("demo", "1.0", source, {}, tools)


@pytest.fixture
def sdist(store, project, tmp_path):
    def make(**changes):
        path = tmp_path / "demo-1.2.tar.gz"
        with tarfile.open(path, "w:gz") as archive:
            archive.add(project(**changes), "demo-1.2")
        path = store.add(path)
        size = path.stat().st_size
        return SourceFile(index="pypi", filename=path.name, sha256=sha256_file(path), size=size)

    return make


def test_an_sdist_is_built(builder, sdist, tools):
    wheel = builder.build_source("demo", "1.2", sdist(), {}, tools)
    assert wheel.filename == "demo-1.2-py3-none-any.whl"


def test_a_build_for_the_empty_device_finds_the_stand_in_for_torch(builder, sdist, tools):
    wheel = builder.build_source("demo", "1.2", sdist(), {"VLLM_TARGET_DEVICE": "empty"}, tools)
    text = read(wheel, "demo/environment.txt")
    assert "VLLM_VERSION_OVERRIDE=1.2" in text
    assert "empty_torch" in text


def test_a_locked_source_has_the_locked_bytes(builder, sdist, tools):
    source = sdist()
    wheel = builder.build_source("demo", "1.2", source, {}, tools)
    facts = {"name": "demo", "version": "1.2", "source": source, "filename": wheel.filename}
    locked = LockedSource(**facts, sha256=wheel.sha256, size=wheel.size)
    assert builder.build_locked(locked, tools) == wheel.path
    with pytest.raises(BuildError, match="not the locked wheel"):
        builder.build_locked(locked.model_copy(update={"sha256": "0" * 64}), tools)


def test_an_sdist_that_writes_outside_its_folder_is_refused(builder, store, tools, tmp_path):
    path = tmp_path / "evil-1.0.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        member = tarfile.TarInfo("../outside")
        member.size = 1
        archive.addfile(member, io.BytesIO(b"x"))
    path = store.add(path)
    size = path.stat().st_size
    source = SourceFile(index="pypi", filename=path.name, sha256=sha256_file(path), size=size)
    with pytest.raises(BuildError, match="is no sdist"):
        builder.build_source("evil", "1.0", source, {}, tools)
