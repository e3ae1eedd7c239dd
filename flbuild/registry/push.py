"""Pushing an image: what the registry lacks, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Literal

from flbuild.build.model import Blob, BuiltImage
from flbuild.progress import Progress, Task
from flbuild.registry.client import RegistryClient
from flbuild.registry.reference import Reference

PARALLEL = 4
Outcome = Literal["existing", "mounted", "uploaded"]


@dataclass(frozen=True)
class PushReport:
    """What a push did. `sent` counts every byte of every request body."""

    reference: Reference
    digest: str
    existing: int
    mounted: int
    uploaded: int
    sent: int


def push_image(
    client: RegistryClient, image: BuiltImage, target: Reference, progress: Progress
) -> PushReport:
    """Push `image`: its layers, then its config, then its manifest, by digest and by tag.

    A manifest arrives last, so a push that is killed leaves nothing that can be pulled half; the next one
    finds the layers that arrived. A layer without a local file is mounted from the base's repository, or
    streamed from there once if that is another registry.

    Raises:
        RemoteRefusedError, UnreachableError, RemoteMovedError: by class, what the registry did.
    """
    before = client.sent
    base = Reference.parse(image.base_reference) if image.base_reference else None
    total = sum(blob.size for blob in image.layers)
    with progress.task(f"push {target}", total) as task, ThreadPoolExecutor(PARALLEL) as pool:
        blobs = {blob.digest: blob for blob in image.layers}.values()
        outcomes = list(pool.map(lambda blob: _push_blob(client, blob, target, base, task), blobs))
    config = image.config
    if not client.has_blob(target, image.config_digest):
        client.upload(target, image.config_digest, len(config), lambda: BytesIO(config))
    digest = client.put_manifest(target.at(image.manifest_digest), image.manifest, image.manifest_media_type)
    if target.tag is not None:
        client.put_manifest(
            Reference(target.host, target.repository, target.tag), image.manifest, image.manifest_media_type
        )
    return PushReport(
        target,
        digest,
        outcomes.count("existing"),
        outcomes.count("mounted"),
        outcomes.count("uploaded"),
        client.sent - before,
    )


def _push_blob(
    client: RegistryClient, blob: Blob, target: Reference, base: Reference | None, task: Task
) -> Outcome:
    if client.has_blob(target, blob.digest):
        task.advance(blob.size)
        return "existing"
    location = None
    if blob.from_base and base is not None and base.host == target.host:
        location = client.mount(target, blob.digest, base)
        if location is None:
            task.advance(blob.size)
            return "mounted"
    with _source(client, blob, base) as source:
        client.upload(target, blob.digest, blob.size, source, location=location, sent=task.advance)
    return "uploaded"


@contextmanager
def _source(client: RegistryClient, blob: Blob, base: Reference | None) -> Iterator[Callable[[], IO[bytes]]]:
    """Opens a blob's bytes: its file, or a copy from the base's registry that is gone afterwards."""
    if blob.path is not None:
        path = blob.path
        yield lambda: path.open("rb")
        return
    if base is None:
        raise ValueError(f"layer {blob.digest} has neither a file nor a registry")
    with TemporaryDirectory(prefix="flbuild-layer-") as folder:
        copy = Path(folder) / "layer"
        client.save_blob(base, blob.digest, copy)
        yield lambda: copy.open("rb")
