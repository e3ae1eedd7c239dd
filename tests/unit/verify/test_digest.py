from __future__ import annotations

import hashlib
import json

import pytest

from flbuild.errors import (
    RemoteGoneError,
    RemoteMovedError,
    RemoteRefusedError,
    UnreachableError,
    UsageError,
    VerificationError,
)
from flbuild.lock.model import Lock, LockedImage, Output, PluginRecord
from flbuild.registry.manifest import read_manifest
from flbuild.registry.media_types import DOCKER_MANIFEST, OCI_INDEX, OCI_MANIFEST
from flbuild.verify.digest import raise_first, verify_published, verify_reference

NAME = "registry.example.org/team/demo:v1"
DIFF_IDS = ["sha256:" + "d" * 64]


def digest_of(content):
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def image(media_type=OCI_MANIFEST, diff_ids=DIFF_IDS):
    """The bytes of a manifest and of its config."""
    config = json.dumps({"rootfs": {"diff_ids": diff_ids}}).encode()
    manifest = {"mediaType": media_type, "config": {"digest": digest_of(config)}, "layers": []}
    return json.dumps(manifest).encode(), config


def index_of(*manifests):
    listed = [{"digest": digest_of(manifest), "mediaType": OCI_MANIFEST} for manifest in manifests]
    return json.dumps({"mediaType": OCI_INDEX, "manifests": listed}).encode()


class Registry:
    """A registry as its client shows it: manifests by tag and digest, and blobs."""

    def __init__(self):
        self.tags = {}
        self.content = {}
        self.error = None

    def put(self, manifest, config=None, tag="v1"):
        self.content[digest_of(manifest)] = manifest
        if tag:
            self.tags[tag] = manifest
        if config is not None:
            self.content[digest_of(config)] = config

    def manifest(self, reference):
        if self.error is not None:
            raise self.error
        found = self.content.get(reference.digest) if reference.digest else self.tags.get(reference.tag)
        if found is None:
            raise RemoteGoneError(f"{reference}: the registry has no such manifest", cause="MANIFEST_UNKNOWN")
        return read_manifest(reference, found, digest_of(found), "")

    def blob(self, reference, digest):
        return self.content[digest]


def output(manifest, reference=NAME, kind="image", diff_ids=DIFF_IDS):
    return Output(
        target="release",
        reference=reference,
        manifest=digest_of(manifest),
        kind=kind,
        config="sha256:" + "c" * 64,
        layers=("sha256:" + "1" * 64,),
        diff_ids=tuple(diff_ids),
        revision="0" * 40,
        plugin=PluginRecord(version="1", filename="p.whl", sha256="f" * 64),
        builder="oci",
        created="2026-01-01T00:00:00Z",
    )


def lock_of(*outputs):
    entry = LockedImage(
        recipe="sha256:" + "0" * 64, platform="linux/amd64", python="3.11", packages=(), outputs=outputs
    )
    return Lock(images={"demo": entry})


@pytest.fixture
def registry():
    return Registry()


def test_what_is_there_as_locked_is_shown_with_its_digest(registry):
    manifest, config = image()
    registry.put(manifest, config)
    checked = verify_reference(NAME, lock_of(output(manifest)), registry)
    assert (checked.digest, checked.recipe, checked.target) == (digest_of(manifest), "demo", "release")


def test_a_tag_that_moved_is_drift_with_both_digests(registry):
    manifest, _ = image()
    other, config = image(diff_ids=["sha256:" + "e" * 64])
    registry.put(other, config)
    with pytest.raises(RemoteMovedError) as caught:
        verify_reference(NAME, lock_of(output(manifest)), registry)
    assert caught.value.exit_code == 4
    assert digest_of(manifest) in caught.value.what
    assert digest_of(other) in caught.value.what
    assert caught.value.cause == "the tag was published again with another image"


def test_B38_content_under_another_media_type_is_told_from_other_content(registry):
    manifest, _ = image()
    converted, config = image(DOCKER_MANIFEST)
    registry.put(converted, config)
    with pytest.raises(RemoteMovedError) as caught:
        verify_reference(NAME, lock_of(output(manifest)), registry)
    assert caught.value.cause.startswith("content equal, digest differs")


def test_B31_a_collected_digest_is_gone_and_a_mirror_is_named(registry):
    manifest, _ = image()
    with pytest.raises(RemoteGoneError) as caught:
        verify_reference(NAME, lock_of(output(manifest)), registry)
    assert caught.value.exit_code == 5
    assert "MANIFEST_UNKNOWN" in caught.value.cause
    assert "mirror" in caught.value.remedy
    assert "flbuild image demo" in caught.value.remedy


def test_B31_B46_a_deleted_tag_whose_digest_is_still_there_asks_to_be_kept_alive(registry):
    manifest, config = image()
    registry.put(manifest, config, tag=None)
    with pytest.raises(RemoteGoneError) as caught:
        verify_reference(NAME, lock_of(output(manifest)), registry)
    assert "the tag of" in caught.value.what
    assert "keeps it alive" in caught.value.remedy
    assert f"@{digest_of(manifest)}" in caught.value.remedy


@pytest.mark.parametrize(
    ("error", "code"), [(UnreachableError("no route"), 10), (RemoteRefusedError("401"), 6)]
)
def test_B32_unreachable_and_refused_are_neither_moved_nor_gone(registry, error, code):
    registry.error = error
    with pytest.raises(type(error)) as caught:
        verify_reference(NAME, lock_of(output(image()[0])), registry)
    assert caught.value.exit_code == code


def test_B43_the_digest_of_an_index_is_that_of_its_own_bytes(registry):
    manifest, config = image()
    registry.put(manifest, config, tag=None)
    registry.put(index_of(manifest))
    locked = lock_of(output(index_of(manifest), kind="index"))
    checked = verify_reference(NAME, locked, registry)
    assert (checked.digest, checked.kind) == (digest_of(index_of(manifest)), "index")


def test_B52_an_index_around_the_locked_image_is_explained(registry):
    manifest, config = image()
    registry.put(manifest, config, tag=None)
    registry.put(index_of(manifest))
    with pytest.raises(RemoteMovedError) as caught:
        verify_reference(NAME, lock_of(output(manifest)), registry)
    assert caught.value.cause.startswith("an index was put around the locked image")
    assert f"@{digest_of(manifest)}" in caught.value.remedy


def test_B52_an_image_in_place_of_an_index_is_a_change_of_kind(registry):
    manifest, config = image()
    registry.put(manifest, config)
    with pytest.raises(RemoteMovedError) as caught:
        verify_reference(NAME, lock_of(output(index_of(manifest), kind="index")), registry)
    assert caught.value.cause == "the tag changed its kind: it named an index, and names an image now"


def test_B43_an_index_that_nobody_locked_leads_to_the_locked_image_in_it(registry):
    manifest, config = image()
    registry.put(manifest, config, tag=None)
    registry.put(index_of(manifest), tag="multi")
    with pytest.raises(VerificationError) as caught:
        verify_reference("registry.example.org/team/demo:multi", lock_of(output(manifest)), registry)
    assert caught.value.exit_code == 8
    assert (
        f"flbuild verify digest registry.example.org/team/demo@{digest_of(manifest)}" in caught.value.remedy
    )


def test_a_digest_is_found_under_any_name(registry):
    manifest, config = image()
    registry.put(manifest, config, tag=None)
    text = f"other.example.org/copy@{digest_of(manifest)}"
    assert verify_reference(text, lock_of(output(manifest)), registry).recipe == "demo"


def test_an_image_that_nobody_locked_is_refused(registry):
    registry.put(*image(diff_ids=["sha256:" + "e" * 64]), tag="x")
    with pytest.raises(VerificationError, match="records no image"):
        verify_reference("registry.example.org/team/demo:x", lock_of(output(image()[0])), registry)


def test_B38_converted_content_under_another_name_is_told_too(registry):
    manifest, _ = image()
    registry.put(*image(DOCKER_MANIFEST), tag="copy")
    with pytest.raises(VerificationError) as caught:
        verify_reference("registry.example.org/team/demo:copy", lock_of(output(manifest)), registry)
    assert caught.value.cause.startswith("content equal, digest differs")


def test_the_newest_record_of_a_tag_counts(registry):
    old, _ = image(diff_ids=["sha256:" + "e" * 64])
    new, config = image()
    registry.put(new, config)
    assert verify_reference(NAME, lock_of(output(old), output(new)), registry).digest == digest_of(new)


def test_every_published_image_is_checked_even_if_one_fails(registry):
    manifest, config = image()
    registry.put(manifest, config)
    gone = output(b"gone", reference="registry.example.org/team/demo:gone")
    checked = list(
        verify_published(lock_of(gone, output(manifest), output(manifest, reference=None)), registry)
    )
    assert [type(item.error) for item in checked] == [RemoteGoneError, type(None)]
    with pytest.raises(RemoteGoneError):
        raise_first(checked)
    raise_first(checked[1:])


def test_several_failures_are_told_together_with_the_first_ones_exit_code(registry):
    gone = [output(b"gone", reference=f"registry.example.org/team/demo:{tag}") for tag in ("a", "b")]
    with pytest.raises(RemoteGoneError) as caught:
        raise_first(list(verify_published(lock_of(*gone), registry)))
    assert "2 of 2 published images" in caught.value.what
    assert "demo:a is gone" in caught.value.what
    assert "demo:b is gone" in caught.value.what


def test_a_lock_without_published_images_says_how_to_get_one(registry):
    with pytest.raises(UsageError, match="records no published image"):
        list(verify_published(lock_of(output(b"", reference=None)), registry))


def test_a_layout_is_compared_by_its_manifest(case, registry):
    subject = case.verification().subject
    recorded = output(subject.manifest, reference=None)
    assert (
        verify_reference(f"oci:{case.folder}", lock_of(recorded), registry).digest == subject.manifest_digest
    )
    with pytest.raises(VerificationError, match="records no image"):
        verify_reference(f"oci:{case.folder}", lock_of(), registry)


def test_a_layout_whose_manifest_was_changed_is_refused(case, registry):
    subject = case.verification().subject
    path = case.folder / "blobs" / "sha256" / subject.manifest_digest.removeprefix("sha256:")
    path.write_bytes(subject.manifest + b" ")
    with pytest.raises(VerificationError):
        verify_reference(f"oci:{case.folder}", lock_of(output(subject.manifest)), registry)
