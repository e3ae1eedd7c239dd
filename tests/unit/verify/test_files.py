from __future__ import annotations

import hashlib

import pytest

from flbuild.progress import Silent
from flbuild.verify.files import read_files
from flbuild.verify.subject import open_subject


@pytest.fixture
def read(tmp_path, layout, tar):
    """`read(layer, ..., skip=...)`: the view of an image with these layers of files."""

    def make(*layers, skip=(), **changes):
        name = layout(tmp_path / "layout", [tar(layer) for layer in layers], {"os": "linux"}, **changes)
        subject = open_subject(name, None)
        skipped = [subject.layers[index].digest for index in skip]
        return read_files(subject, skipped, Silent())

    return make


def test_files_have_hash_size_and_mode_and_only_telling_ones_keep_their_content(read):
    info = "usr/lib/python3/site-packages/a-1.dist-info/METADATA"
    view = read({"usr/bin/tool": (b"#!/bin/sh\n" + b"x" * 1000, 0o755), info: b"Name: a\n"})
    tool = view.files["usr/bin/tool"]
    assert (tool.size, tool.mode) == (1010, 0o755)
    assert tool.digest == hashlib.sha256(b"#!/bin/sh\n" + b"x" * 1000).digest()
    assert tool.head.startswith(b"#!/bin/sh\n")
    assert len(tool.head) == 256
    assert view.contents == {info: b"Name: a\n"}


def test_whiteouts_and_opaque_folders_are_applied(read):
    view = read(
        {"a/one": b"1", "b/two": b"2", "b/three": b"3"},
        {"a/.wh.one": b"", "b/.wh..wh..opq": b"", "b/four": b"4"},
    )
    assert set(view.files) == {"b/four"}
    assert view.hidden == {"a/one", "b"}


def test_links_of_both_kinds_lead_to_their_files(read, link):
    view = read({"usr/bin/a": (b"#!x\n", 0o755), "b": link("usr/bin/a"), "c": link("usr/bin/a", hard=True)})
    assert view.get("b").path == "usr/bin/a"
    assert view.files["c"].digest == view.files["usr/bin/a"].digest
    assert view.files["c"].head == b"#!x\n"


def test_layers_that_are_skipped_are_not_opened(read):
    view = read({"a": b"1"}, {"b": b"2"}, skip=[0])
    assert set(view.files) == {"b"}
    assert view.read == [1]
    assert 0 < view.read_bytes < 500


def test_absolute_and_dotted_names_are_paths_inside(read):
    assert set(read({"./a": b"1", "/b": b"2", "c/../d": b"3", "../../e": b"4"}).files) == {"a", "b", "d", "e"}


def test_names_that_are_no_utf8_can_be_shown(read):
    (path,) = read({"a\udcff": b"1"}).files
    path.encode()


def test_uncompressed_layers_are_read_too(tmp_path, layout, tar):
    plain = tar({"a": b"1"})
    kind = "application/vnd.oci.image.layer.v1.tar"
    name = layout(tmp_path / "layout", [(plain, plain)], {"os": "linux"}, layer_types=[kind])
    view = read_files(open_subject(name, None), (), Silent())
    assert set(view.files) == {"a"}
    assert view.problems == []


def test_a_folder_takes_the_place_of_a_file_below(read):
    assert set(read({"a": b"1"}, {"a/": b"", "a/b": b"2"}).files) == {"a/b"}


def test_bytes_that_unpack_alike_but_are_not_those_of_the_digest_are_a_problem(tmp_path, layout, tar):
    name = layout(tmp_path / "layout", [tar({"a": b"1"})], {"os": "linux"})
    subject = open_subject(name, None)
    blob = tmp_path / "layout" / "blobs" / "sha256" / subject.layers[0].digest.removeprefix("sha256:")
    packed = bytearray(blob.read_bytes())
    packed[4:8] = b"time"  # of gzip's header: RFC 1952, MTIME
    blob.write_bytes(packed)
    (problem,) = read_files(subject, (), Silent()).problems
    assert problem.startswith(f"layer {subject.layers[0].digest} has the bytes of sha256:")


def test_another_diff_id_than_the_config_says_is_a_problem(read):
    (problem,) = read({"a": b"1"}, diff_ids=["sha256:" + "9" * 64]).problems
    assert "the config says sha256:999" in problem
