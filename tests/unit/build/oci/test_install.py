from __future__ import annotations

import base64
import csv
import hashlib
import io

import pytest

from flbuild.build.oci.install import HELD, install_wheel, record
from flbuild.errors import BuildError

SITE = "usr/local/lib/python3.11/dist-packages"
INFO = "demo-1.0.dist-info"


@pytest.fixture
def install(wheels, scheme):
    def run(files, **changes):
        wheel = wheels.add("demo", files, **changes)
        entries, record_path = install_wheel(wheel, wheels.files[wheel.sha256], scheme)
        return {entry.path: entry for entry in entries}, record_path

    return run


def test_files_go_where_their_scheme_says(install):
    entries, record_path = install(
        {
            "demo/__init__.py": b"",
            "demo-1.0.data/purelib/pure.py": b"",
            "demo-1.0.data/scripts/tool": b"#!python\nprint()\n",
            "demo-1.0.data/data/share/demo/x.txt": b"",
            "demo-1.0.data/headers/demo.h": b"",
        }
    )
    assert {path for path in entries if INFO not in path} == {
        f"{SITE}/demo/__init__.py",
        f"{SITE}/pure.py",
        "usr/local/bin/tool",
        "usr/local/share/demo/x.txt",
        "usr/local/include/python3.11/demo/demo.h",
    }
    assert record_path == f"{SITE}/{INFO}/RECORD"


def test_scripts_start_the_images_interpreter_and_are_executable(install):
    entries, _ = install(
        {
            "demo-1.0.data/scripts/tool": b"#!python\nprint()\n",
            "demo-1.0.data/scripts/shell": b"#!/bin/sh\n",
            f"{INFO}/entry_points.txt": b"[console_scripts]\nserve = demo.cli:app.main\n",
        }
    )
    assert entries["usr/local/bin/tool"].content.data == b"#!/usr/bin/python3\nprint()\n"
    assert entries["usr/local/bin/shell"].content.data == b"#!/bin/sh\n"
    serve = entries["usr/local/bin/serve"]
    assert serve.content.data.startswith(b"#!/usr/bin/python3\n")
    assert b"from demo.cli import app" in serve.content.data
    assert b"app.main()" in serve.content.data
    assert {entries[f"usr/local/bin/{name}"].mode for name in ("tool", "shell", "serve")} == {0o755}


def test_the_installer_is_on_record_and_so_is_who_was_asked_for(install):
    entries, _ = install({"demo.py": b""}, requested=True)
    assert entries[f"{SITE}/{INFO}/INSTALLER"].content.data == b"flbuild\n"
    assert entries[f"{SITE}/{INFO}/REQUESTED"].content.data == b""
    entries, _ = install({"demo.py": b""}, requested=False)
    assert f"{SITE}/{INFO}/REQUESTED" not in entries


def test_no_path_of_this_machine_is_installed(install):
    entries, _ = install({"demo.py": b""})
    assert not any(path.endswith("direct_url.json") for path in entries)


def test_byte_code_inside_a_wheel_is_left_out_quietly(install, recwarn):
    entries, _ = install({"demo.py": b"", "__pycache__/demo.cpython-311.pyc": b"old"})
    assert not any("__pycache__" in path for path in entries)
    assert not recwarn.list


def test_large_files_stay_in_the_wheel(install):
    entries, _ = install({"small.bin": b"s" * HELD, "large.bin": b"l" * (HELD + 1)})
    small, large = entries[f"{SITE}/small.bin"].content, entries[f"{SITE}/large.bin"].content
    assert small.data is not None
    assert (large.data, large.size, large.member) == (None, HELD + 1, "large.bin")


@pytest.mark.parametrize("path", ["../../../../etc/passwd", "demo-1.0.data/data/../../etc/passwd"])
def test_a_wheel_that_writes_elsewhere_is_refused(install, path):
    with pytest.raises(BuildError, match=r"demo.*cannot be installed|outside of where wheels may write"):
        install({path: b"x"})


def test_what_is_no_wheel_is_named(wheels, scheme, tmp_path):
    wheel = wheels.add("demo", {"demo.py": b""})
    broken = tmp_path / wheel.filename
    broken.write_bytes(b"no zip")
    with pytest.raises(BuildError, match=r"demo-1\.0-py3-none-any\.whl cannot be installed"):
        install_wheel(wheel, broken, scheme)


def test_the_record_lists_every_file_with_its_hash_relative_to_site_packages(install, scheme):
    entries, path = install({"demo.py": b"x = 1\n", "demo-1.0.data/scripts/tool": b"#!python\n"})
    made = record(path, list(entries.values()), scheme, "demo")
    rows = list(csv.reader(io.StringIO(made.content.data.decode())))
    assert [row[0] for row in rows] == [
        "../../../bin/tool",
        f"{INFO}/INSTALLER",
        f"{INFO}/METADATA",
        f"{INFO}/WHEEL",
        "demo.py",
        f"{INFO}/RECORD",
    ]
    digest = base64.urlsafe_b64encode(hashlib.sha256(b"x = 1\n").digest()).decode().rstrip("=")
    assert rows[4][1:] == [f"sha256={digest}", "6"]
    assert rows[-1] == [f"{INFO}/RECORD", "", ""]
