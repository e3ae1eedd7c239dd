from __future__ import annotations

import gzip
import json
from dataclasses import replace

import pytest

from flbuild.progress import Silent
from flbuild.registry.media_types import DOCKER_MANIFEST
from flbuild.verify.check_layers import layers
from flbuild.verify.files import read_files
from flbuild.verify.subject import open_subject

ZSTD = "application/vnd.oci.image.layer.v1.tar+zstd"
GZIP = "application/vnd.oci.image.layer.v1.tar+gzip"


def test_another_diff_id_than_the_layers_is_found(case):
    case.layout["diff_ids"] = ["sha256:" + "9" * 64] * 3
    errors = case.errors("layers")
    assert any("unpacks to sha256:" in error and "the config says sha256:999" in error for error in errors)


def test_fewer_diff_ids_than_layers_are_found(case):
    verification = case.verification()
    config = {**verification.subject.settings, "rootfs": {"diff_ids": []}}

    changed = replace(verification, subject=replace(verification.subject, config=json.dumps(config).encode()))
    messages = [finding.message for finding in layers(changed)]
    assert "the manifest has 3 layers, the config 0 diff_ids" in messages


def test_layer_bytes_that_are_not_those_of_the_digest_are_found(case):
    verification = case.verification()
    digest = verification.subject.layers[2].digest
    blob = case.folder / "blobs" / "sha256" / digest.removeprefix("sha256:")
    packed = blob.read_bytes()
    blob.write_bytes(gzip.compress(gzip.decompress(packed), 9)[: len(packed)].ljust(len(packed), b"\0"))

    problems = read_files(verification.subject, (), Silent()).problems
    assert any(digest in problem for problem in problems)


def test_a_base_that_is_not_the_locked_one_is_found(case):
    case.locked_base = b"another tar"
    (error,) = case.errors("layers")
    assert error.startswith("layer 0: it is not the locked base's: sha256:")


def test_a_config_that_is_not_the_manifests_is_found(case):
    verification = case.verification()
    other = replace(verification.subject, config=verification.subject.config + b" ")
    messages = [finding.message for finding in layers(replace(verification, subject=other))]
    assert messages[0].startswith("the manifest names config sha256:")


def test_B53_zstd_layers_in_a_docker_manifest_are_an_error(case):
    case.layout |= {"media_type": DOCKER_MANIFEST, "layer_types": [GZIP, ZSTD, GZIP]}
    (error,) = case.errors("media-types")
    assert error.startswith("layer 1: application/vnd.oci.image.layer.v1.tar+zstd in a manifest of type")


def test_B53_zstd_layers_in_an_oci_manifest_are_fine(case):
    case.layout |= {"layer_types": [GZIP, ZSTD, GZIP]}
    assert case.errors("media-types") == []


@pytest.mark.parametrize("stored", [b"\x28\xb5\x2f\xfd but not really", b"something of the future"])
def test_B55_layers_that_cannot_be_read_are_findings_not_crashes(case, layout, tar, stored):
    plain = tar({"file": b"1"})
    name = layout(
        case.folder, [plain, (stored, plain)], {"os": "linux"}, layer_types=[GZIP, "application/new"]
    )
    view = read_files(open_subject(name, None), (), Silent())
    assert list(view.files) == ["file"]
    (problem,) = view.problems
    assert "(application/new) cannot be read" in problem


def test_an_engine_may_pack_a_debian_base_again_but_the_assembler_may_not(case):
    case.locked_base = b"another tar"
    case.builder = "buildah"
    assert case.errors("layers") == []
    case.builder = "oci"
    assert len(case.errors("layers")) == 1
