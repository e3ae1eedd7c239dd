"""Images as `flbuild diff` sees them, made by the same hands as those of the checks."""

from __future__ import annotations

import pytest

from flbuild.diff.compare import compare
from flbuild.diff.sides import image_side
from flbuild.progress import Silent
from flbuild.verify.files import read_files

SITE = "usr/local/lib/python3.11/dist-packages"


def side(case, folder):
    case.folder = folder
    subject = case.verification().subject
    return image_side(subject, read_files(subject, (), Silent()))


@pytest.fixture
def changes(case, tmp_path):
    """`changes(change)`: `SECTION NAME BEFORE AFTER` of what `change(case)` made different."""

    def of(change):
        before = side(case, tmp_path / "before")
        change(case)
        found = compare(before, side(case, tmp_path / "after"))
        return {(item.section, item.name): (item.before, item.after) for item in found}

    return of


def test_the_same_image_differs_in_nothing(changes):
    assert changes(lambda case: None) == {}


def test_another_version_shows_as_package_files_layer_and_size(changes):
    def upgrade(case):
        case.drop("numpy")
        case.install("numpy", "2.2.0", files={"numpy/__init__.py": b"value = 2\n" * 1000})

    found = changes(upgrade)
    assert found["packages", "numpy"] == ("1.26.4", "2.2.0")
    assert ("layers", "2") in found
    assert ("layers", "1") not in found
    assert ("size", "compressed bytes") in found
    before, after = found["files", f"/{SITE}/numpy/__init__.py"]
    assert before.startswith("0644 sha256:")
    assert after.endswith(" 10000 bytes")


def test_environment_labels_and_config_show_by_name(changes):
    def change(case):
        case.env.append("HF_HUB_OFFLINE=1")
        case.labels["note"] = "x"
        case.config["config"] = {"Env": case.env, "Labels": case.labels, "WorkingDir": "/w"}

    found = changes(change)
    assert found["environment", "HF_HUB_OFFLINE"] == (None, "1")
    assert found["labels", "note"] == (None, "x")
    assert found["config", "WorkingDir"] == (None, "/w")


def test_a_mode_and_a_link_show(changes, link):
    def change(case):
        case.base["usr/bin/python3"] = (b"\x7fELF", 0o700)
        case.base["usr/bin/python"] = link("python3")

    found = changes(change)
    assert found["files", "/usr/bin/python3"][1].startswith("0700 ")
    assert found["files", "/usr/bin/python"] == (None, "0644 -> python3")
