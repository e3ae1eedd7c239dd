from __future__ import annotations

import csv
import io
import zipfile

import pytest
from installer.sources import WheelFile

from flbuild.errors import BuildError
from flbuild.index.wheels import check_wheel
from flbuild.wheel.normal import normalise


def write(path, members, tag, *, time=(2024, 5, 6, 7, 8, 10), compression=zipfile.ZIP_DEFLATED, mode=0o664):
    info = "demo-1.0.dist-info"
    content = {
        **members,
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(),
        f"{info}/RECORD": b"",
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in content.items():
            member = zipfile.ZipInfo(name, time)
            member.external_attr = (0o100000 | mode | (0o100 if name.endswith(".sh") else 0)) << 16
            member.compress_type = compression
            archive.writestr(member, data)
    return path


PURE = {"demo/__init__.py": b"x = 1\n", "demo/run.sh": b"#!/bin/sh\n"}


def test_times_order_modes_and_compression_leave_no_trace(tmp_path):
    name = "demo-1.0-cp311-cp311-linux_x86_64.whl"
    one = write(tmp_path / "a" / name, PURE, "cp311-cp311-linux_x86_64")
    two = write(
        tmp_path / "b" / name,
        dict(reversed(PURE.items())),
        "cp311-cp311-linux_x86_64",
        time=(2025, 1, 1, 0, 0, 0),
        compression=zipfile.ZIP_STORED,
        mode=0o600,
    )
    assert one.read_bytes() != two.read_bytes()
    assert normalise(one, tmp_path / "x").read_bytes() == normalise(two, tmp_path / "y").read_bytes()


def test_a_wheel_without_native_code_is_tagged_for_any_platform(tmp_path):
    wheel = write(tmp_path / "demo-1.0-cp311-cp311-linux_x86_64.whl", PURE, "cp311-cp311-linux_x86_64")
    new = normalise(wheel, tmp_path / "new")
    assert new.name == "demo-1.0-py3-none-any.whl"
    text = zipfile.ZipFile(new).read("demo-1.0.dist-info/WHEEL").decode()
    assert text == "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def test_a_build_number_stays(tmp_path):
    wheel = write(tmp_path / "demo-1.0-3-cp311-cp311-linux_x86_64.whl", PURE, "cp311-cp311-linux_x86_64")
    assert normalise(wheel, tmp_path / "new").name == "demo-1.0-3-py3-none-any.whl"


def test_a_wheel_with_native_code_keeps_its_tag(tmp_path):
    name = "demo-1.0-cp311-cp311-linux_x86_64.whl"
    wheel = write(tmp_path / name, {"demo/core.so": b"\x7fELF"}, "cp311-cp311-linux_x86_64")
    new = normalise(wheel, tmp_path / "new")
    assert new.name == name
    assert b"Root-Is-Purelib: false" in zipfile.ZipFile(new).read("demo-1.0.dist-info/WHEEL")


def test_native_code_tagged_for_any_platform_is_refused(tmp_path):
    wheel = write(tmp_path / "demo-1.0-py3-none-any.whl", {"demo/core.so": b"\x7fELF"}, "py3-none-any")
    with pytest.raises(BuildError, match=r"demo/core\.so"):
        normalise(wheel, tmp_path / "new")


def test_the_record_is_complete_and_true(tmp_path):
    wheel = write(tmp_path / "demo-1.0-cp311-cp311-linux_x86_64.whl", PURE, "cp311-cp311-linux_x86_64")
    new = normalise(wheel, tmp_path / "new")
    with WheelFile.open(new) as source:
        source.validate_record()
    rows = list(csv.reader(io.StringIO(zipfile.ZipFile(new).read("demo-1.0.dist-info/RECORD").decode())))
    assert [row[0] for row in rows] == [
        "demo-1.0.dist-info/METADATA",
        "demo-1.0.dist-info/WHEEL",
        "demo/__init__.py",
        "demo/run.sh",
        "demo-1.0.dist-info/RECORD",
    ]
    assert check_wheel(new) == []


def test_what_is_executable_stays_so(tmp_path):
    wheel = write(tmp_path / "demo-1.0-cp311-cp311-linux_x86_64.whl", PURE, "cp311-cp311-linux_x86_64")
    modes = {
        item.filename: oct(item.external_attr >> 16)
        for item in zipfile.ZipFile(normalise(wheel, tmp_path / "new")).infolist()
    }
    assert modes["demo/run.sh"] == "0o100755"
    assert modes["demo/__init__.py"] == "0o100644"


def test_a_zip_without_dist_info_is_no_wheel(tmp_path):
    path = tmp_path / "demo-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("demo.py", "")
    with pytest.raises(BuildError, match=r"0 \.dist-info folders"):
        normalise(path, tmp_path / "new")
