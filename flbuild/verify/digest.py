"""Whether what is published is what the lock records, by the bytes of the manifest alone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from flbuild.errors import FlbuildError, RemoteGoneError, RemoteMovedError, UsageError, VerificationError
from flbuild.lock.model import Lock, Output
from flbuild.registry.client import RegistryClient
from flbuild.registry.manifest import RemoteManifest
from flbuild.registry.reference import Reference
from flbuild.verify.subject import LAYOUT_PREFIX, open_subject


@dataclass(frozen=True)
class Checked:
    """An image and what came of comparing it: a digest that is the recorded one, or an error."""

    name: str
    recipe: str
    target: str
    digest: str
    kind: str
    error: FlbuildError | None = None


def verify_published(lock: Lock, client: RegistryClient) -> Iterator[Checked]:
    """Every image that the lock records as published: its digest is there, and its tag still names it.

    One that fails does not keep the others from being checked.

    Raises:
        UsageError: the lock records none.
    """
    published = [(name, output) for name, output in _outputs(lock) if output.reference is not None]
    if not published:
        raise UsageError(
            "images.lock records no published image",
            remedy="flbuild image NAME --push publishes one; flbuild verify digest REF checks any reference",
        )
    for name, output in published:
        text = str(output.reference)
        try:
            yield _verify_output(name, output, Reference.parse(text), client)
        except FlbuildError as error:
            yield Checked(text, name, output.target, output.manifest, output.kind, error)


def raise_first(checked: Sequence[Checked]) -> None:
    """Nothing if everything is as recorded.

    Raises:
        FlbuildError: of the first error's class; it tells of all of them.
    """
    errors = [item.error for item in checked if item.error is not None]
    if not errors:
        return
    if len(errors) == 1:
        raise errors[0]
    raise type(errors[0])(
        f"{len(errors)} of {len(checked)} published images are not as recorded\n"
        + "\n".join(str(error) for error in errors)
    )


def verify_reference(text: str, lock: Lock, client: RegistryClient) -> Checked:
    """One image against the lock.

    Raises:
        VerificationError: the lock records no such image.
        RemoteMovedError: it is another one than the lock records under that name.
        RemoteGoneError, UnreachableError, RemoteRefusedError: by class, why it cannot be compared.
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
        raise _unknown_remote(text, manifest, lock, client)
    return Checked(text, found[0], found[1].target, manifest.digest, manifest.kind)


def _verify_output(name: str, output: Output, reference: Reference, client: RegistryClient) -> Checked:
    try:
        manifest = client.manifest(reference)
    except RemoteGoneError as error:
        raise _gone(name, output, reference, client, error) from error
    if manifest.digest != output.manifest:
        raise _moved(name, output, reference, manifest, client)
    if manifest.kind != output.kind:
        raise RemoteMovedError(
            f"{reference} is an {manifest.kind}, the lock records an {output.kind} of the same digest",
            cause="images.lock was edited",
            remedy="restore images.lock from version control",
        )
    return Checked(str(reference), name, output.target, manifest.digest, manifest.kind)


def _gone(
    name: str, output: Output, reference: Reference, client: RegistryClient, error: RemoteGoneError
) -> RemoteGoneError:
    """Tell a tag that went from a digest that was collected."""
    if reference.tag is not None and _is_there(reference.at(output.manifest), client):
        return RemoteGoneError(
            f"the tag of {reference} is gone; {output.manifest} is still there",
            cause="somebody deleted the tag; registries collect an untagged digest within hours",
            remedy="give it a tag that keeps it alive, soon: "
            f"skopeo copy docker://{reference.at(output.manifest)} docker://{reference}",
        )
    return RemoteGoneError(
        f"{reference} is gone, and {output.manifest} with it",
        cause=error.cause or "the registry collected it after its tag moved or was deleted",
        remedy=f"take it from a mirror, or build it again (flbuild image {name}): the lock gives the same "
        "digest; keep a tag on what others pin",
    )


def _is_there(reference: Reference, client: RegistryClient) -> bool:
    try:
        client.manifest(reference)
    except RemoteGoneError:
        return False
    return True


def _moved(
    name: str, output: Output, reference: Reference, manifest: RemoteManifest, client: RegistryClient
) -> RemoteMovedError:
    lines = [
        f"{reference} is not the locked image",
        f"  lock:     {output.manifest} ({output.kind})",
        f"  registry: {manifest.digest} ({manifest.kind})",
    ]
    by_digest = reference.at(output.manifest)
    if output.manifest in _children(manifest):
        cause = "an index was put around the locked image; the image itself is unchanged"
        remedy = f"pin the image, {by_digest}, or build and record the index"
    elif manifest.kind != output.kind:
        cause = f"the tag changed its kind: it named an {output.kind}, and names an {manifest.kind} now"
        remedy = f"use {by_digest}; find out who published the {manifest.kind}"
    elif _diff_ids(_config(manifest, client)) == output.diff_ids:
        cause = "content equal, digest differs: a tool converted the manifest or packed the layers again"
        remedy = "publish the locked bytes again; what pins the digest cannot use the converted ones"
    else:
        cause = "the tag was published again with another image"
        remedy = f"use {by_digest}, or build and publish {name} again under a new tag"
    return RemoteMovedError("\n".join(lines), cause=cause, remedy=remedy)


def _unknown_remote(
    text: str, manifest: RemoteManifest, lock: Lock, client: RegistryClient
) -> VerificationError:
    children = _children(manifest)
    inside = next((output for _, output in _outputs(lock) if output.manifest in children), None)
    if inside is None:
        return _unknown(text, manifest.digest, lock, _config(manifest, client))
    return VerificationError(
        f"{text} is an index, {manifest.digest}; the lock records an image in it, {inside.manifest}",
        cause="the digest of an index is not that of an image in it",
        remedy=f"flbuild verify digest {manifest.reference.at(inside.manifest)}",
    )


def _unknown(text: str, digest: str, lock: Lock, config: bytes | None) -> VerificationError:
    content = _diff_ids(config)
    equal = next((output for _, output in _outputs(lock) if content == output.diff_ids), None)
    if equal is not None:
        return VerificationError(
            f"{text} has digest {digest}, the lock records {equal.manifest}",
            cause="content equal, digest differs: a tool converted the manifest or packed the layers again",
            remedy="publish the locked bytes again",
        )
    return VerificationError(
        f"images.lock records no image {digest} ({text})",
        cause="it was built from another lock or commit, or not by flbuild",
        remedy="flbuild image NAME builds and records it; flbuild verify image tells what is in it",
    )


def _children(manifest: RemoteManifest) -> frozenset[str]:
    """Digests of the images in an index."""
    listed = manifest.content.get("manifests") or ()
    return frozenset(str(child.get("digest")) for child in listed if isinstance(child, dict))


def _config(manifest: RemoteManifest, client: RegistryClient) -> bytes | None:
    """The config of an image; None for an index, or where the registry no longer has it."""
    if manifest.kind == "index":
        return None
    try:
        return client.blob(manifest.reference, str(manifest.content["config"]["digest"]))
    except RemoteGoneError:
        return None


def _diff_ids(config: bytes | None) -> tuple[str, ...] | None:
    """What an image unpacks to, whatever its layers are packed with."""
    return None if config is None else tuple(json.loads(config).get("rootfs", {}).get("diff_ids", ()))


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
