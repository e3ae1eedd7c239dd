from __future__ import annotations

import subprocess

import pytest

from flbuild.errors import BuildError, RemoteGoneError, RemoteMovedError, VerificationError
from flbuild.files import sha256_bytes
from flbuild.lock.model import BaseDistribution
from flbuild.settings import IndexSettings

GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")


class Upstream:
    """A git repository that a recipe builds `kernels` from."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()
        self.git("init", "-q", "-b", "main")
        self.commit = self.save("one")

    def git(self, *arguments):
        command = [*GIT, "-C", str(self.folder), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def save(self, text):
        (self.folder / "code.py").write_text(text)
        self.git("add", ".")
        self.git("commit", "-q", "-m", text)
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def upstream(tmp_path, demo, make_wheel):
    """The demo project with `kernels 5.3.2` from git."""
    upstream = Upstream(tmp_path / "upstream")
    text = (
        f"  - {{name: kernels, version: 5.3.2, git: '{upstream.folder.as_uri()}', commit: {upstream.commit}}}"
    )
    demo.edit("packages:\n", f"packages:\n{text}\n")
    demo.builder.wheels["kernels"] = make_wheel(tmp_path / "built", "kernels", "5.3.2", requires=["regex"])
    return upstream


def source(image, name="kernels"):
    return next(source for source in image.sources if source.name == name)


def test_a_git_source_is_locked_by_commit_archive_and_wheel(demo, upstream):
    found = source(demo.lock())
    assert found.source.commit == upstream.commit
    assert len(found.source.archive_sha256) == 64
    assert found.source.tag is None
    assert found.filename == "kernels-5.3.2-py3-none-any.whl"


def test_what_a_built_wheel_requires_is_part_of_the_closure(demo, upstream):
    demo.build_vllm()
    assert "regex" in {file.name for file in demo.lock().packages}


def test_the_tag_that_names_the_commit_is_recorded(demo, upstream):
    upstream.git("tag", "v5.3.2")
    assert source(demo.lock()).source.tag == "v5.3.2"


def test_a_tag_that_names_another_commit_is_a_warning(demo, upstream):
    upstream.save("two")
    upstream.git("tag", "v5.3.2")
    assert source(demo.lock()).source.tag is None
    assert any("tag v5.3.2" in text and upstream.commit[:12] in text for text in demo.progress.warnings)


def test_b68_a_tag_that_moved_since_it_was_locked_stops_the_next_lock(demo, upstream):
    upstream.git("tag", "v5.3.2")
    demo.lock()
    upstream.save("two")
    upstream.git("tag", "--force", "v5.3.2")
    demo.edit("[pytest]", "[pytest, ruff]")
    with pytest.raises(RemoteMovedError, match=r"v5\.3\.2.*moved"):
        demo.lock()


def test_a_repository_that_cannot_be_reached_can_be_recorded_as_missing(demo, upstream):
    upstream.folder.rename(upstream.folder.with_name("elsewhere"))
    image = demo.lock(allow_missing=True)
    assert [(item.name, item.version, item.source) for item in image.unresolved] == [
        ("kernels", "5.3.2", upstream.folder.as_uri())
    ]


def test_a_version_of_vllm_without_sources_is_gone(demo):
    demo.edit("0.28.0", "0.99.0")
    with pytest.raises(RemoteGoneError, match=r"no hashed sdist of vllm 0\.99\.0"):
        demo.lock()


def test_sources_of_vllm_in_a_local_folder_are_hashed_there(demo, tmp_path):
    folder = tmp_path / "sources"
    for name, version, *_ in [("numpy", "1.26.4"), ("regex", "1.0"), ("sympy", "1.0"), ("pytest", "8.0")]:
        demo.make_wheel(folder, name, version)
    (folder / "vllm-0.28.0.tar.gz").write_bytes(b"vllm's sources in a folder")
    demo.settings.indexes["pypi"] = IndexSettings(url=str(folder))
    found = demo.lock().sources[0].source
    assert found.sha256 == sha256_bytes(b"vllm's sources in a folder")
    assert found.size == len(b"vllm's sources in a folder")


def test_a_built_wheel_for_another_machine_is_refused(demo, tmp_path, make_wheel):
    tag = "cp311-cp311-manylinux_2_28_aarch64"
    demo.builder.wheels["vllm"] = make_wheel(tmp_path / "other", "vllm", "0.28.0+empty", tag=tag)
    with pytest.raises(VerificationError, match="no wheel for x86_64"):
        demo.lock()


def test_a_build_that_fails_stops_the_lock(demo, monkeypatch):
    def fail(*arguments):
        raise BuildError("no")

    monkeypatch.setattr(demo.builder, "build_source", fail)
    with pytest.raises(BuildError):
        demo.lock(allow_missing=True)


def test_an_upgraded_source_is_built_again(demo):
    demo.lock()
    demo.lock(upgrade=["vllm"])
    assert demo.builder.builds == ["vllm", "vllm"]


def test_vllm_of_the_base_is_not_built(demo):
    demo.edit("packages: [python3]}", "packages: [python3], provides: {vllm: 0.28.0+empty}}")
    demo.bases.inventory = (BaseDistribution(name="vllm", version="0.28.0+empty", location="/s/vllm"),)
    assert demo.lock().sources == ()
    assert not demo.builder.builds
