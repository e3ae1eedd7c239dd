from __future__ import annotations

import pytest

from flbuild.lock.model import (
    Lock,
    LockedFile,
    LockedImage,
    LockedSource,
    Output,
    PluginRecord,
    SourceFile,
    Unresolved,
)
from flbuild.project import Project
from flbuild.verify import lock as verify
from flbuild.verify.lock import verify_lock

RECIPE = """\
schema: 1
name: demo
summary: a small image
platform: linux/amd64
python: {version: "3.11", site_packages: /site}
base: {debian: bookworm}
vllm: {version: 0.28.0}
targets: {release: {}}
image: {repository: example.org/demo, tag: demo}
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with one recipe, which agrees with any entry as far as other modules are concerned."""
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "demo.yaml").write_text(RECIPE)
    monkeypatch.setattr(verify, "plugin_requirements", lambda root, recipe: ())
    monkeypatch.setattr(verify, "stale", lambda recipe, lock, requires: [])
    return Project(tmp_path)


def pin(name="numpy", version="1.0", **changes):
    filename = f"{name}-{version}-py3-none-any.whl"
    values = {
        "name": name,
        "version": version,
        "index": "pypi",
        "filename": filename,
        "sha256": "a" * 64,
        "size": 1,
    }
    return LockedFile(**{**values, **changes})


def entry(**changes):
    values = {
        "recipe": "sha256:" + "0" * 64,
        "platform": "linux/amd64",
        "python": "3.11",
        "packages": (pin(),),
    }
    return LockedImage(**{**values, **changes})


def published(reference="example.org/demo:1", **changes):
    digest = "sha256:" + "1" * 64
    values = {
        "target": "release",
        "reference": reference,
        "manifest": digest,
        "config": digest,
        "layers": (digest,),
        "diff_ids": (digest,),
        "revision": "0" * 40,
        "plugin": PluginRecord(version="1", filename="p.whl", sha256="f" * 64),
        "builder": "oci",
        "created": "2026-01-01T00:00:00Z",
    }
    return Output(**{**values, **changes})


def found(project, *, build_tools=(), **images):
    return verify_lock(project, Lock(build_tools=build_tools, images=images or {"demo": entry()}))


def test_a_consistent_lock_has_no_findings(project):
    assert found(project) == []


def test_what_disagrees_with_the_recipe_is_an_error_with_its_remedy(project, monkeypatch):
    monkeypatch.setattr(verify, "stale", lambda recipe, lock, requires: ["numpy: the recipe pins 2"])
    (finding,) = found(project)
    assert (finding.severity, finding.message, finding.remedy) == (
        "error",
        "numpy: the recipe pins 2",
        "flbuild lock demo",
    )


def test_an_entry_without_a_recipe_is_an_error(project):
    (finding,) = found(project, demo=entry(), old=entry())
    assert (finding.subject, finding.message) == ("old", "the lock has an entry, but there is no recipe")


def test_unresolved_inputs_are_listed(project):
    missing = Unresolved(name="cann-shmem", version="1.6.0", source="cann", reason="did not answer")
    (finding,) = found(project, demo=entry(unresolved=(missing,)))
    assert (finding.severity, finding.subject) == ("warning", "demo: cann-shmem")
    assert "1.6.0 is unresolved (cann): did not answer" in finding.message


@pytest.mark.parametrize("changes", [{"version": "2.0"}, {"name": "numpi"}])
def test_a_pin_that_its_file_contradicts_is_an_error(project, changes):
    edited = pin().model_copy(update=changes)
    (finding,) = found(project, demo=entry(packages=(edited,)))
    assert "its file is numpy-1.0-py3-none-any.whl" in finding.message


def test_a_file_that_is_no_wheel_is_an_error(project):
    (finding,) = found(project, demo=entry(packages=(pin(filename="numpy-1.0.zip"),)))
    assert finding.severity == "error"


def test_one_edited_hash_among_several_pins_of_a_file_is_found(project):
    edited = pin(sha256="b" * 64)
    (finding,) = found(project, demo=entry(targets={"release": ()}), build_tools=(edited,))
    assert finding.subject == "demo: numpy"
    assert "has another SHA-256 here than at build_tools" in finding.message


def test_a_distribution_pinned_for_all_targets_and_for_one_is_an_error(project):
    (finding,) = found(project, demo=entry(targets={"ci": (pin(),)}))
    assert finding.message == "it is pinned twice"


def test_a_source_that_its_sdist_contradicts_is_an_error(project):
    sdist = SourceFile(index="pypi", filename="vllm-0.27.0.tar.gz", sha256="a" * 64, size=1)
    source = LockedSource(
        name="vllm", version="0.28.0+empty", source=sdist, filename="v.whl", sha256="b" * 64, size=1
    )
    (finding,) = found(project, demo=entry(sources=(source,)))
    assert finding.message == "the entry says 0.28.0+empty, its sdist is vllm-0.27.0.tar.gz"


def test_two_images_under_one_tag_are_a_tag_that_moved(project):
    (finding,) = found(project, demo=entry(outputs=(published(), published())))
    assert (finding.severity, finding.subject) == ("warning", "demo: example.org/demo:1")


def test_an_output_whose_layers_and_diff_ids_differ_in_number_is_an_error(project):
    (finding,) = found(project, demo=entry(outputs=(published(diff_ids=()),)))
    assert finding.message == "layers and diff_ids differ in number"
