"""Whether what is published is what the lock records, by the bytes of the manifest alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from flbuild.errors import (
    RemoteGoneError,
    RemoteMovedError,
    UsageError,
    VerificationError,
)
from flbuild.lock.model import Lock, Output
from flbuild.registry.client import RegistryClient, RemoteManifest
from flbuild.registry.reference import Reference
from flbuild.verify.subject import LAYOUT_PREFIX, open_subject


@dataclass(frozen=True)
class Checked:
    """An image whose manifest has the recorded digest."""

    name: str
    recipe: str
    target: str
    digest: str
    kind: str


def verify_published(lock: Lock, client: RegistryClient) -> Iterator[Checked]:
    """Every image that the lock records as published: its digest is there, and its tag still names it.

    Raises:
        RemoteMovedError: the tag names another image.
        RemoteGoneError: tag or digest are gone.
        UnreachableError, RemoteRefusedError: the registry does not answer, or refuses.
    """
    for name, output in _outputs(lock):
        if output.reference is not None:
            yield _verify_output(name, output, Reference.parse(output.reference), client)


def verify_reference(text: str, lock: Lock, client: RegistryClient) -> Checked:
    """One image against the lock.

    Raises:
        VerificationError: the lock records no such image.
        RemoteMovedError: it is another one than the lock records under that name.
    """
    if text.startswith(LAYOUT_PREFIX):
        subject = open_subject(text, client)
        found = _by_digest(lock, subject.manifest_digest)
        if found is None:
            raise _unknown(text, subject.manifest_digest, lock, subject.config)
        return Checked(text, found[0], found[1].target, subject.manifest_digest, "image")
    reference = Reference.parse(text)
    recorded = _by_reference(lock, reference)
    if recorded is not None:
        return _verify_output(recorded[0], recorded[1], reference, client)
    manifest = client.manifest(reference)
    found = _by_digest(lock, manifest.digest)
    if found is None:
        raise _unknown(text, manifest.digest, lock, _config(manifest, reference, client))
    return Checked(text, found[0], found[1].target, manifest.digest, manifest.kind)


def _verify_output(name: str, output: Output, reference: Reference, client: RegistryClient) -> Checked:
    try:
        manifest = client.manifest(reference)
    except RemoteGoneError as error:
        raise _gone(output, reference, client, error) from error
    if manifest.digest != output.manifest:
        raise _moved(name, output, reference, manifest, client)
    if manifest.kind != output.kind:
        raise RemoteMovedError(
            f"{reference} is an {manifest.kind} now, the lock records an {output.kind}",
            remedy="find out who published it; tools that expect the other kind fail",
        )
    return Checked(str(reference), name, output.target, manifest.digest, manifest.kind)


def _gone(
    output: Output, reference: Reference, client: RegistryClient, error: RemoteGoneError
) -> RemoteGoneError:
    """Tell a tag that went from a digest that was collected."""
    by_digest = False
    if reference.tag is not None:
        try:
            client.manifest(reference.at(output.manifest))
            by_digest = True
        except RemoteGoneError:
            pass
    if by_digest:
        return RemoteGoneError(
            f"the tag of {reference} is gone; {output.manifest} is still there",
            cause="somebody deleted the tag; registries collect an untagged digest within hours",
            remedy=f"tag it again soon: skopeo copy docker://{reference.at(output.manifest)} docker://{reference}",
        )
    return RemoteGoneError(
        f"{reference} is gone, and {output.manifest} with it",
        cause=error.cause or "the registry collected it after its tag moved or was deleted",
        remedy="pull it from a mirror, or build it again: the lock gives the same digest; keep a tag on it",
    )


def _moved(
    name: str, output: Output, reference: Reference, manifest: RemoteManifest, client: RegistryClient
) -> RemoteMovedError:
    lines = [f"{reference} is not the locked image", f"  lock:     {output.manifest} ({output.kind})"]
    lines.append(f"  registry: {manifest.digest} ({manifest.kind})")
    children = [child.get("digest") for child in manifest.content.get("manifests", ())]
    if output.manifest in children:
        cause = "an index was put around the locked image; the image itself is unchanged"
        remedy = f"verify {reference.at(output.manifest)}, or record the index"
    elif _content(_config(manifest, reference, client)) == _content_of(output):
        cause = "content equal, digest differs: a tool converted the manifest to another media type"
        remedy = "publish the locked bytes again; what pins the digest cannot use the converted one"
    else:
        cause = "the tag was published again with another image"
        remedy = f"use {reference.at(output.manifest)}, or build and publish {name} again under a new tag"
    return RemoteMovedError("\n".join(lines), cause=cause, remedy=remedy)


def _unknown(text: str, digest: str, lock: Lock, config: bytes | None) -> VerificationError:
    content = _content(config)
    equal = next((output for _, output in _outputs(lock) if content == _content_of(output)), None)
    if equal is not None:
        return VerificationError(
            f"{text} has digest {digest}, the lock records {equal.manifest}",
            cause="content equal, digest differs: a tool converted the manifest to another media type",
            remedy="publish the locked bytes again",
        )
    return VerificationError(
        f"images.lock records no image {digest} ({text})",
        cause="it was built from another lock or commit, or not by flbuild",
        remedy="flbuild image NAME builds and records it; flbuild verify image tells what is in it",
    )


def _config(manifest: RemoteManifest, reference: Reference, client: RegistryClient) -> bytes | None:
    if manifest.kind == "index":
        return None
    return client.blob(reference, str(manifest.content["config"]["digest"]))


def _content(config: bytes | None) -> tuple[str, ...] | None:
    """What an image unpacks to, whatever its layers are compressed with."""
    return tuple(json.loads(config).get("rootfs", {}).get("diff_ids", ())) if config is not None else None


def _content_of(output: Output) -> tuple[str, ...]:
    return output.diff_ids


def _outputs(lock: Lock) -> Iterator[tuple[str, Output]]:
    return ((name, output) for name, image in lock.images.items() for output in image.outputs)


def _by_digest(lock: Lock, digest: str) -> tuple[str, Output] | None:
    return next((item for item in _outputs(lock) if item[1].manifest == digest), None)


def _by_reference(lock: Lock, reference: Reference) -> tuple[str, Output] | None:
    """The newest output recorded under a tag; one asked for by digest is found by that."""
    if reference.digest is not None:
        return _by_digest(lock, reference.digest)
    found = [item for item in _outputs(lock) if item[1].reference == str(reference)]
    return found[-1] if found else None


def require_published(lock: Lock) -> None:
    """Nothing if the lock records a published image.

    Raises:
        UsageError: it does not, so there is nothing to verify.
    """
    if not any(output.reference for _, output in _outputs(lock)):
        raise UsageError(
            "images.lock records no published image",
            remedy="flbuild image NAME --push publishes one; flbuild verify digest REF checks any reference",
        )
