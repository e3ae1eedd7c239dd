from __future__ import annotations

import json

import pytest

from flbuild.base.editable import finder_targets, path_lines, recorded_source


def test_the_source_of_an_editable_install_is_in_its_record() -> None:
    record = {"url": "file:///workspace/my%20tree", "dir_info": {"editable": True}}
    assert recorded_source(json.dumps(record).encode()) == "/workspace/my tree"


@pytest.mark.parametrize(
    "record",
    [
        None,
        b"",
        b"no json",
        b"[]",
        b'{"url": "file:///src", "dir_info": {}}',
        b'{"url": "file:///src", "dir_info": null}',
        b'{"url": "https://x/y.whl", "archive_info": {}}',
    ],
)
def test_anything_else_is_no_editable_install(record: bytes | None) -> None:
    assert recorded_source(record) is None


def test_a_path_file_names_folders_and_may_run_code() -> None:
    content = b"# comment\nimport os; os.system('x')\n/workspace/a/\n  /workspace/b\nrelative\n/\n"
    assert path_lines(content) == ["/workspace/a", "/workspace/b"]


@pytest.mark.parametrize(
    "text",
    ["MAPPING: dict[str, str] = {'a': '/s/a', 'b': '/s/b.py'}", "MAPPING = {'a': '/s/a', 'b': '/s/b.py'}"],
)
def test_a_finder_maps_modules_to_files_and_folders(text: str) -> None:
    source = f"from __future__ import annotations\nimport sys\n\n{text}\nNAMESPACES = {{}}\n"
    assert finder_targets(source.encode()) == ["/s/a", "/s/b.py"]


@pytest.mark.parametrize("text", ["", "MAPPING = make()", "MAPPING = [1]", "MAPPING: dict", "def (", "\0"])
def test_a_finder_of_another_kind_maps_nothing(text: str) -> None:
    assert finder_targets(text.encode()) == []
