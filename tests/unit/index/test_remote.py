from __future__ import annotations

import os
import zipfile

from flbuild.index.http import Http
from flbuild.index.remote import TAIL, read_remote


def url_of(fake_index, served):
    return f"http://127.0.0.1:{fake_index.port}/pypi/files/{served.filename}"


def test_metadata_of_a_large_wheel_are_read_without_fetching_it(
    tmp_path, fake_index, make_wheel, make_settings
):
    path = make_wheel(
        tmp_path, "thing", "1.0", requires=["other"], files={"thing/data.bin": os.urandom(1 << 20)}
    )
    served = fake_index.add(path)
    found = read_remote(Http(make_settings(), wait=0), url_of(fake_index, served), None)
    with zipfile.ZipFile(path) as archive:
        assert found.metadata == archive.read("thing-1.0.dist-info/METADATA")
        assert set(found.members) == set(archive.namelist())
    assert len(fake_index.requests) == 1


def test_metadata_at_the_beginning_take_a_second_request(tmp_path, fake_index, make_wheel, make_settings):
    path = make_wheel(tmp_path, "thing", "1.0")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("thing/data.bin", os.urandom(4 * TAIL))
    served = fake_index.add(path)
    found = read_remote(Http(make_settings(), wait=0), url_of(fake_index, served), None)
    assert b"Name: thing" in found.metadata
    assert "thing/data.bin" in found.members
    assert len(fake_index.requests) == 2


def test_a_directory_larger_than_the_first_part_is_read(tmp_path, fake_index, make_wheel, make_settings):
    files = {f"thing/{number:04}_{'x' * 80}.py": b"" for number in range(900)}
    path = make_wheel(tmp_path, "thing", "1.0", files=files)
    served = fake_index.add(path)
    found = read_remote(Http(make_settings(), wait=0), url_of(fake_index, served), None)
    assert len(found.members) == 903
    assert b"Name: thing" in found.metadata


def test_a_server_that_gives_no_parts_gives_nothing(
    tmp_path, fake_index, make_wheel, make_settings, monkeypatch
):
    served = fake_index.add(make_wheel(tmp_path, "thing", "1.0"))
    fake_index.answers["/files/"] = [200]
    assert read_remote(Http(make_settings(), wait=0), url_of(fake_index, served), None) is None


def test_something_that_is_no_wheel_gives_nothing(tmp_path, fake_index, make_settings):
    path = tmp_path / "thing-1.0-py3-none-any.whl"
    path.write_bytes(b"x" * 1000)
    served = fake_index.add(path)
    assert read_remote(Http(make_settings(), wait=0), url_of(fake_index, served), None) is None
