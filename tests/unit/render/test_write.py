from __future__ import annotations

import pytest

from flbuild.errors import HostError, UsageError
from flbuild.render import write
from flbuild.render.write import MARK, differences, write_rendering

TEXTS = {"Dockerfile": b"FROM scratch\n", "layers/a/requirements.txt": b"a==1\n"}


@pytest.fixture
def wheel(tmp_path):
    path = tmp_path / "cache" / "a.whl"
    path.parent.mkdir()
    path.write_bytes(b"wheel")
    return path


def content(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_texts_and_files_are_written_with_a_mark(tmp_path, wheel):
    folder = tmp_path / "out" / "cpu"
    write_rendering(folder, TEXTS, {"layers/a/a.whl": wheel})
    found = content(folder)
    assert found.pop(MARK).endswith(b"}\n")
    assert found == {**TEXTS, "layers/a/a.whl": b"wheel"}


def test_a_former_rendering_is_replaced_with_nothing_left_of_it(tmp_path, wheel):
    folder = tmp_path / "out"
    write_rendering(folder, {**TEXTS, "old": b""}, {"old.whl": wheel})
    write_rendering(folder, TEXTS, {})
    assert set(content(folder)) == {*TEXTS, MARK}


def test_files_of_somebody_else_are_refused_unless_forced(tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "thesis.txt").write_text("mine")
    with pytest.raises(UsageError, match="no former rendering"):
        write_rendering(tmp_path / "own", TEXTS, {})
    assert (tmp_path / "own" / "thesis.txt").read_text() == "mine"
    write_rendering(tmp_path / "own", TEXTS, {}, force=True)
    assert set(content(tmp_path / "own")) == {*TEXTS, MARK}


def test_an_empty_folder_is_taken(tmp_path):
    (tmp_path / "out").mkdir()
    write_rendering(tmp_path / "out", TEXTS, {})
    assert (tmp_path / "out" / "Dockerfile").is_file()


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "out").write_text("")
    with pytest.raises(UsageError, match="is a file"):
        write_rendering(tmp_path / "out", TEXTS, {})


def test_a_failure_leaves_the_former_rendering_and_no_half_of_the_new_one(tmp_path, wheel, monkeypatch):
    folder = tmp_path / "out"
    write_rendering(folder, TEXTS, {})

    def full(source, target):
        raise OSError("no space left on device")

    monkeypatch.setattr(write, "link_or_copy", full)
    with pytest.raises(HostError, match="could not be written"):
        write_rendering(folder, {"Dockerfile": b"FROM other\n"}, {"a.whl": wheel})
    assert (folder / "Dockerfile").read_bytes() == TEXTS["Dockerfile"]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_the_same_input_gives_the_same_bytes(tmp_path):
    write_rendering(tmp_path / "a", TEXTS, {})
    write_rendering(tmp_path / "b", dict(reversed(TEXTS.items())), {})
    assert content(tmp_path / "a") == content(tmp_path / "b")


def test_differences_name_what_changed_what_lacks_and_what_is_too_much(tmp_path):
    write_rendering(tmp_path / "out", {**TEXTS, "gone": b""}, {})
    (tmp_path / "out" / "Dockerfile").write_text("FROM edited\n")
    found = differences(tmp_path / "out", {**TEXTS, "new": b""})
    assert found == ["Dockerfile: differs", "new: is missing", "gone: is no longer part of it"]
    write_rendering(tmp_path / "out", TEXTS, {})
    assert differences(tmp_path / "out", TEXTS) == []
