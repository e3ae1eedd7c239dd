"""Layers and the manifest around them: digests, types, and the locked base at the bottom."""

from __future__ import annotations

from collections.abc import Iterator

from flbuild.build.oci.assemble import OciBuilder
from flbuild.files import sha256_bytes
from flbuild.finding import Finding
from flbuild.lock.model import LockedDebianBase
from flbuild.registry.media_types import DOCKER_MANIFEST
from flbuild.verify.context import Verification


def layers(verification: Verification) -> Iterator[Finding]:
    """Digests and diff_ids of the layers that were read, the config's digest, and the base below them."""
    subject = verification.subject
    for problem in verification.view.problems:
        yield _error("layers", subject.name, problem, "build or push the image again")
    stated = str(subject.content.get("config", {}).get("digest"))
    found = f"sha256:{sha256_bytes(subject.config)}"
    if stated != found:
        yield _error(
            "layers",
            subject.name,
            f"the manifest names config {stated}, its bytes are {found}",
            "build or push the image again",
        )
    yield from _numbers(verification)
    yield from _base(verification)


def media_types(verification: Verification) -> Iterator[Finding]:
    """Types that engines refuse to combine: zstd layers have no place in a Docker schema 2 manifest."""
    subject = verification.subject
    for index, layer in enumerate(subject.layers):
        if "zstd" in layer.media_type and subject.media_type == DOCKER_MANIFEST:
            yield _error(
                "media-types",
                f"layer {index}",
                f"{layer.media_type} in a manifest of type {DOCKER_MANIFEST}, which podman and others refuse",
                "push it with an OCI manifest, or compress it with gzip",
            )


def _numbers(verification: Verification) -> Iterator[Finding]:
    subject = verification.subject
    diff_ids = subject.settings.get("rootfs", {}).get("diff_ids", ())
    if len(diff_ids) != len(subject.layers):
        yield _error(
            "layers",
            subject.name,
            f"the manifest has {len(subject.layers)} layers, the config {len(diff_ids)} diff_ids",
            "build or push the image again",
        )


def _base(verification: Verification) -> Iterator[Finding]:
    base, recorded = verification.locked.base, verification.output
    if base is None:
        return
    if isinstance(base, LockedDebianBase) and recorded is not None and recorded.builder != OciBuilder.name:
        # Engines unpack the tar of a Debian base and pack it again; its files are the same, its tar is not.
        return
    found = verification.subject.layers
    for index, layer in enumerate(base.layers):
        got = found[index].diff_id if index < len(found) else "missing"
        if got != layer.diff_id:
            yield _error(
                "layers",
                f"layer {index}",
                f"it is not the locked base's: {got} instead of {layer.diff_id}",
                "build on the locked base, or lock the base again",
            )


def _error(check: str, subject: str, message: str, remedy: str) -> Finding:
    return Finding("error", check, subject, message, remedy)
