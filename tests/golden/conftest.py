"""Golden files: what is rendered from the real recipes and made-up pins, kept to be read and compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "renderings"


def pytest_addoption(parser):
    parser.addoption("--update-golden", action="store_true", help="write the golden files anew")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, Mapping[str, bytes]], None]:
    """`golden(name, files)`: they are the files kept under that name; --update-golden makes them so."""

    def compare(name: str, files: Mapping[str, bytes]) -> None:
        folder = FOLDER / name
        kept = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
        if request.config.getoption("--update-golden"):
            for path in set(kept) - set(files):
                kept[path].unlink()
            for path, content in files.items():
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_bytes(content)
            return
        assert sorted(kept) == sorted(files)
        for path, content in files.items():
            assert content.decode() == kept[path].read_text(), f"{path}: see --update-golden"

    return compare
