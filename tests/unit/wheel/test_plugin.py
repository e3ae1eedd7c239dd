from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import zipfile

import pytest

from flbuild.errors import PolicyError, UsageError
from flbuild.progress import Silent
from flbuild.recipe.model import Plugin
from flbuild.wheel.plugin import build_plugin, find_plugin, plugin_facts

PLUGIN = Plugin(path="plugin", name="demo")


@pytest.fixture
def build(builder, tools):
    def run(root, commit="HEAD", *, require_tag=False):
        facts = plugin_facts(root, PLUGIN, commit)
        progress = Silent()
        wheel = build_plugin(root, PLUGIN, facts, builder, tools, progress, require_tag=require_tag)
        return wheel, progress.warnings

    return run


def export(repository, folder, commit="HEAD"):
    folder.mkdir()
    command = ["git", "-C", str(repository.root), "archive", "--format=tar", commit]
    archive = subprocess.run(command, capture_output=True, check=True).stdout
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive, check=True)
    return folder


def members(wheel):
    with zipfile.ZipFile(wheel.path) as archive:
        return {name: archive.read(name) for name in archive.namelist() if "environment" not in name}


def test_facts_are_known_without_a_build(repository):
    repository.git("tag", "v1.2.0")
    repository.write("plugin/demo/more.py", "")
    commit = repository.commit()
    facts = plugin_facts(repository.root, PLUGIN)
    assert facts.version == f"1.2.0.post1+g{commit[:7]}"
    assert facts.filename == f"demo-{facts.version}-py3-none-any.whl"
    assert (facts.revision, facts.epoch, facts.tagged) == (commit, repository.clock - 60, True)
    assert facts.source == "https://example.org/demo"


def test_the_archive_hash_is_that_of_git_archive(repository):
    archive = subprocess.run(
        ["git", "-C", str(repository.root), "archive", "--format=tar", "HEAD"],
        capture_output=True,
        check=True,
    ).stdout
    expected = hashlib.sha256(archive).hexdigest()
    assert plugin_facts(repository.root, PLUGIN).archive_sha256 == expected


def test_the_wheel_is_the_one_that_the_facts_name(repository, build):
    wheel, _ = build(repository.root)
    assert wheel.filename == plugin_facts(repository.root, PLUGIN).filename
    assert b"inner = 2\n" in members(wheel).values()


def test_an_export_builds_the_same_wheel_as_the_repository(repository, builder, tools, build, tmp_path):
    repository.git("tag", "v1.2.0")
    from_git, _ = build(repository.root)
    from_git.path.unlink()
    from_export, warnings = build(export(repository, tmp_path / "export"))
    assert (from_export.filename, from_export.sha256) == (from_git.filename, from_git.sha256)
    assert warnings == []


def test_what_work_left_in_an_export_is_not_built(repository, build, tmp_path):
    from_git, _ = build(repository.root)
    from_git.path.unlink()
    copy = export(repository, tmp_path / "export")
    for path in ("plugin/build/lib/x.py", "plugin/demo.egg-info/x", "plugin/demo/__pycache__/x.pyc"):
        (copy / path).parent.mkdir(parents=True)
        (copy / path).write_text("left")
    assert build(copy)[0].sha256 == from_git.sha256


def test_an_older_commit_can_be_built(repository, build):
    old = repository.git("rev-parse", "HEAD")
    repository.write("plugin/demo/__init__.py", "value = 2\n")
    repository.commit()
    assert members(build(repository.root, old)[0])["demo/__init__.py"] == b"value = 1\n"
    assert members(build(repository.root)[0])["demo/__init__.py"] == b"value = 2\n"


def test_uncommitted_changes_are_left_out_and_said_to_be(repository, build):
    repository.git("tag", "v1.2.0")
    repository.write("plugin/demo/__init__.py", "value = 3\n")
    repository.write("plugin/demo/new.py", "new = 1\n")
    wheel, warnings = build(repository.root)
    assert members(wheel)["demo/__init__.py"] == b"value = 1\n"
    assert "demo/new.py" not in members(wheel)
    assert warnings == [
        "uncommitted changes are not in the wheel: plugin/demo/__init__.py, plugin/demo/new.py"
    ]


def test_windows_line_ends_in_a_work_tree_do_not_reach_the_wheel(repository, build):
    """The kernel looks for an interpreter called 'sh\\r' when a script has them."""
    repository.write("plugin/demo/start.sh", "#!/bin/sh\r\necho ready\r\n")
    repository.commit()
    assert members(build(repository.root)[0])["demo/start.sh"] == b"#!/bin/sh\necho ready\n"


def test_a_users_git_settings_do_not_reach_the_wheel(repository, build, tmp_path, monkeypatch):
    first, _ = build(repository.root)
    first.path.unlink()
    settings = tmp_path / "gitconfig"
    settings.write_text("[core]\n\tautocrlf = true\n\teol = crlf\n[tar]\n\tumask = 0077\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    assert build(repository.root)[0].sha256 == first.sha256


def test_b61_a_commit_without_a_version_tag_is_warned_about_or_refused(repository, build, tmp_path):
    """PR 487 shipped 0.0.0+g1a30017 unnoticed."""
    url = repository.root.as_uri()
    repository.git("tag", "v1.0.0")
    repository.write("plugin/demo/more.py", "")
    repository.commit()
    shallow = tmp_path / "shallow"
    subprocess.run(["git", "clone", "--quiet", "--depth=1", "--no-tags", url, str(shallow)], check=True)
    wheel, warnings = build(shallow)
    assert re.match(r"0\.0\.0\+g[0-9a-f]{7}$", wheel.version)
    assert any("the clone is shallow" in warning for warning in warnings)
    with pytest.raises(PolicyError, match="no version tag is reachable"):
        build(shallow, require_tag=True)


@pytest.mark.parametrize("archived", [True, False])
def test_b59_a_tree_without_git_that_knows_no_version_is_refused_before_it_is_built(
    repository, build, tmp_path, archived
):
    """vllm#13130: nothing is built to a version that somebody guessed."""
    root = export(repository, tmp_path / "tree")
    if not archived:
        (root / ".git_archival.txt").unlink()
    with pytest.raises(PolicyError, match="is no repository, and records no version tag") as caught:
        build(root, require_tag=True)
    assert "git archive vX.Y.Z" in caught.value.remedy
    assert "git fetch" not in caught.value.remedy
    assert not list(tmp_path.rglob("wheel-demo.log"))


def test_an_export_without_a_version_tag_is_warned_about_too(repository, build, tmp_path):
    _, warnings = build(export(repository, tmp_path / "export"))
    assert "no version tag is reachable" in warnings[0]


def test_a_tagged_commit_needs_no_warning(repository, build):
    repository.git("tag", "v1.2.0")
    wheel, warnings = build(repository.root, require_tag=True)
    assert (wheel.version, warnings) == ("1.2.0", [])


def copied(repository, tmp_path, name):
    copy = export(repository, tmp_path / name)
    (copy / ".git_archival.txt").unlink()
    return copy


def test_a_plain_copy_is_named_by_its_content(repository, build, tmp_path):
    one, two = copied(repository, tmp_path, "one"), copied(repository, tmp_path, "two")
    (two / "plugin" / "demo.egg-info").mkdir()
    (two / "README").write_text("not part of the plugin")
    wheel, warnings = build(one)
    assert re.match(r"0\.0\.0\+export\.[0-9a-f]{12}$", wheel.version)
    assert "records no commit" in warnings[0]
    assert build(two)[0] == wheel
    (two / "plugin" / "demo" / "__init__.py").write_text("value = 5\n")
    assert build(two)[0].version != wheel.version


def test_a_copy_has_no_commit_and_no_archive(repository, tmp_path):
    facts = plugin_facts(copied(repository, tmp_path, "copy"), PLUGIN)
    assert (facts.revision, facts.archive_sha256, facts.tagged) == (None, None, False)


def test_a_commit_without_the_plugin_is_named(repository):
    repository.git("rm", "-r", "--quiet", "plugin")
    commit = repository.commit()
    with pytest.raises(UsageError, match=rf"commit {commit[:12]} of .* has no plugin/pyproject\.toml"):
        plugin_facts(repository.root, PLUGIN)


def test_a_copy_without_the_plugin_is_named(repository, tmp_path):
    copy = copied(repository, tmp_path, "copy")
    shutil.rmtree(copy / "plugin")
    with pytest.raises(UsageError, match=r"has no plugin/pyproject\.toml"):
        plugin_facts(copy, PLUGIN)


def test_a_broken_pyproject_is_the_authors_mistake(repository):
    repository.write("plugin/pyproject.toml", "[project\n")
    repository.commit()
    with pytest.raises(UsageError, match=r"pyproject\.toml cannot be read"):
        plugin_facts(repository.root, PLUGIN)


def test_a_wheel_is_found_only_after_it_was_built(repository, builder, tools, build):
    facts = plugin_facts(repository.root, PLUGIN)
    assert find_plugin(repository.root, PLUGIN, facts, builder, tools) is None
    wheel, _ = build(repository.root)
    assert find_plugin(repository.root, PLUGIN, facts, builder, tools) == wheel
