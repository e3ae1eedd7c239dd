from __future__ import annotations

import io
import tarfile

import pytest

from flbuild.build.oci.entries import Content, Entry
from flbuild.build.oci.tar import LAYER_EPOCH, write_wheels, write_whiteouts

SITE = "usr/local/lib/python3.11/dist-packages"


def entry(path, mode=0o644, data=b"x"):
    return Entry(path, Content.of(data), mode, "demo")


@pytest.fixture
def members(scheme):
    def read(entries, scheme=scheme):
        stream = io.BytesIO()
        write_wheels(stream, entries, scheme)
        stream.seek(0)
        with tarfile.open(fileobj=stream) as tar:
            return {member.name: member for member in tar}

    return read


def test_entries_are_sorted_and_tell_nothing_of_who_made_them(members):
    found = members([entry(f"{SITE}/b.py"), entry("usr/local/bin/a", 0o755), entry(f"{SITE}/a/c.py")])
    assert list(found) == sorted(found)
    for member in found.values():
        assert (member.uid, member.gid, member.uname, member.gname) == (0, 0, "", "")
        assert member.mtime == LAYER_EPOCH
    assert found["usr/local/bin/a"].mode == 0o755
    assert found[f"{SITE}/b.py"].mode == 0o644


def test_the_order_of_entries_does_not_matter(scheme):
    entries = [entry(f"{SITE}/a/{name}.py") for name in "cab"]
    one, two = io.BytesIO(), io.BytesIO()
    write_wheels(one, entries, scheme)
    write_wheels(two, entries[::-1], scheme)
    assert one.getvalue() == two.getvalue()


def test_a_folder_comes_before_what_is_in_it_and_only_if_the_wheel_brings_it(members):
    found = members([entry(f"{SITE}/a/b/c.py"), entry("usr/local/share/demo/x"), entry("usr/local/bin/t")])
    folders = [name for name, member in found.items() if member.isdir()]
    assert folders == [f"{SITE}/a", f"{SITE}/a/b", "usr/local/share/demo"]
    assert {found[name].mode for name in folders} == {0o755}


def test_a_prefix_of_its_own_is_treated_alike(members, scheme):
    from dataclasses import replace

    prefix = "opt/py"
    own = replace(
        scheme,
        site_packages=f"/{prefix}/lib/python3.11/site-packages",
        scripts=f"/{prefix}/bin",
        data=f"/{prefix}",
    )
    found = members([entry(f"{prefix}/lib/python3.11/site-packages/a/b.py"), entry(f"{prefix}/bin/t")], own)
    assert [name for name, member in found.items() if member.isdir()] == [
        f"{prefix}/lib/python3.11/site-packages/a"
    ]


def test_long_and_foreign_names_survive(members):
    path = f"{SITE}/{'long/' * 60}naïve.py"
    assert path in members([entry(path)])


def test_whiteouts_are_empty_files_with_the_prefix_of_the_specification():
    stream = io.BytesIO()
    write_whiteouts(stream, ["/site/b.py", "/site/a/x.py", "/site/b.py"])
    stream.seek(0)
    with tarfile.open(fileobj=stream) as tar:
        found = {member.name: member.size for member in tar}
    assert found == {"site/a/.wh.x.py": 0, "site/.wh.b.py": 0}
    assert list(found) == ["site/a/.wh.x.py", "site/.wh.b.py"]
