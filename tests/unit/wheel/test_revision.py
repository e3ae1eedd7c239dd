from __future__ import annotations

import subprocess

import pytest

from flbuild.errors import UsageError
from flbuild.wheel.revision import Revision, changed_files, is_shallow, read_revision


@pytest.mark.parametrize(
    ("tag", "distance", "version"),
    [
        (None, 0, "0.0.0+g0123456"),
        ("v1.2.3", 0, "1.2.3"),
        ("v1.2.3", 5, "1.2.3.post5+g0123456"),
        ("v1.2.3rc1", 0, "1.2.3rc1"),
        ("v1.2.3rc1", 2, "1.2.3rc1.post2+g0123456"),
    ],
)
def test_the_version_follows_the_nearest_tag(tag, distance, version):
    assert Revision("0123456" + "a" * 33, 1, tag, distance).version == version


def test_a_commit_is_read_with_its_time_and_tag(repository):
    repository.git("tag", "v1.2.0")
    repository.write("plugin/demo/more.py", "")
    commit = repository.commit()
    assert read_revision(repository.root) == Revision(commit, repository.clock - 60, "v1.2.0", 1)


@pytest.mark.parametrize("annotated", [True, False])
def test_light_and_annotated_tags_count_and_others_do_not(repository, annotated):
    repository.git("tag", *(["--annotate", "--message", "x"] if annotated else []), "v2.0.0")
    repository.git("tag", "nightly")
    assert read_revision(repository.root).tag == "v2.0.0"


def test_a_tag_that_is_no_version_is_not_counted(repository):
    repository.git("tag", "v1-final-final")
    assert read_revision(repository.root).version.startswith("0.0.0+g")


def test_an_export_tells_the_same_as_the_repository(repository, tmp_path):
    repository.git("tag", "v1.2.0")
    repository.write("more", "")
    repository.commit()
    export = tmp_path / "export"
    export.mkdir()
    archive = subprocess.run(
        ["git", "-C", str(repository.root), "archive", "HEAD"], capture_output=True, check=True
    ).stdout
    subprocess.run(["tar", "-x", "-C", str(export)], input=archive, check=True)
    assert read_revision(export) == read_revision(repository.root)


def test_a_copy_whose_placeholders_were_never_filled_records_nothing(repository, tmp_path):
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / ".git_archival.txt").write_text((repository.root / ".git_archival.txt").read_text())
    assert read_revision(copy) is None


def test_a_copy_inside_somebody_elses_repository_is_a_copy(repository):
    inner = repository.root / "vendor" / "ours"
    inner.mkdir(parents=True)
    assert read_revision(inner) is None


def test_an_unknown_commit_is_the_users_mistake(repository):
    with pytest.raises(UsageError, match="'nowhere' names no commit"):
        read_revision(repository.root, "nowhere")


def test_a_commit_name_cannot_be_an_option(repository):
    with pytest.raises(UsageError):
        read_revision(repository.root, "--all")


def test_a_shallow_clone_is_noticed(repository, tmp_path):
    repository.write("more", "")
    repository.commit()
    url = repository.root.as_uri()
    subprocess.run(["git", "clone", "--quiet", "--depth=1", url, str(tmp_path / "shallow")], check=True)
    assert is_shallow(tmp_path / "shallow")
    assert not is_shallow(repository.root)


def test_changed_and_new_files_are_listed(repository):
    repository.write("plugin/demo/__init__.py", "value = 2\n")
    repository.write("plugin/demo/new.py", "")
    repository.write("outside", "")
    assert changed_files(repository.root, "plugin") == ("plugin/demo/__init__.py", "plugin/demo/new.py")
