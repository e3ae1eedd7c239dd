from __future__ import annotations

import json

import pytest

from flbuild.errors import UsageError
from flbuild.registry.manifest import read_manifest
from flbuild.verify.subject import open_subject


def test_a_layout_is_opened_with_or_without_its_digest(case):
    subject = case.verification().subject
    again = open_subject(f"oci:{case.folder}@{subject.manifest_digest}", None)
    assert again.manifest == subject.manifest
    assert again.is_local


def test_a_folder_that_is_not_there_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match="is no folder"):
        open_subject(f"oci:{tmp_path}/none", None)


def test_labels_and_environment_may_be_absent(layout, tar, tmp_path):
    subject = open_subject(layout(tmp_path / "layout", [tar({})], {"os": "linux"}), None)
    assert (subject.labels, subject.env) == ({}, {})


class Registry:
    """A registry that holds one image."""

    def __init__(self, subject, blobs):
        self.subject = subject
        self.blobs = blobs
        self.streamed = []

    def image_manifest(self, reference, platform):
        found = read_manifest(reference, self.subject.manifest, self.subject.manifest_digest, "")
        return found, found

    def blob(self, reference, digest):
        return self._path(digest).read_bytes()

    def stream_blob(self, reference, digest):
        self.streamed.append(digest)
        yield self._path(digest).read_bytes()

    def _path(self, digest):
        return self.blobs / digest.removeprefix("sha256:")


def test_a_registry_image_streams_only_the_layers_that_are_opened(case):
    local = case.verification().subject
    registry = Registry(local, case.folder / "blobs" / "sha256")
    subject = open_subject("registry.example.org/team/demo:1", registry)
    assert json.loads(subject.config) == json.loads(local.config)
    assert not subject.is_local
    assert registry.streamed == []
    with subject.open_layer(subject.layers[1].digest) as stream:
        assert stream.read(2) == b"\x1f\x8b"
    assert registry.streamed == [subject.layers[1].digest]
