from __future__ import annotations

import shutil
from collections import namedtuple

import pytest

from flbuild.doctor.check_cache import COMFORTABLE, NEEDED, cache

Usage = namedtuple("Usage", "total used free")


@pytest.mark.parametrize(
    ("free", "severity"), [(NEEDED - 1, "error"), (NEEDED, "warning"), (COMFORTABLE, "info")]
)
def test_free_space_decides(machine, monkeypatch, free, severity):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(0, 0, free))
    (finding,) = cache(machine())
    assert finding.severity == severity


def test_a_folder_that_cannot_be_written_to_is_an_error(machine, tmp_path):
    (tmp_path / "file").write_text("")
    (finding,) = cache(machine(cache_dir=tmp_path / "file" / "cache"))
    assert finding.severity == "error"
    assert "cannot be written to: Not a directory" in finding.message
    assert "FLBUILD_CACHE_DIR" in finding.remedy


def test_looking_leaves_nothing_behind(machine, tmp_path):
    list(cache(machine()))
    assert list((tmp_path / "cache").iterdir()) == []
