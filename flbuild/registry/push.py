"""Pushing an image: what the registry lacks, and nothing else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from io import BufferedReader, BytesIO
from typing import IO, Literal

from flbuild.build.model import Blob, BuiltImage
from flbuild.errors import BuildError
from flbuild.progress import Progress, Task
from flbuild.registry.client import RegistryClient
from flbuild.registry.reference import Reference
from flbuild.registry.stream import PieceStream

PARALLEL = 4
Outcome = Literal["existing", "mounted", "uploaded"]


@dataclass(frozen=True)
class PushReport:
    """What a push did. `sent` counts every byte of every request body; the three others count layers."""

    reference: Reference
    digest: str
    existing: int
    mounted: int
    uploaded: int
    sent: int


def push_image(
    client: RegistryClient,
    image: BuiltImage,
    target: Reference,
    progress: Progress,
    published: Mapping[str, Sequence[Reference]] | None = None,
) -> PushReport:
    """Push `image`: its layers, then its config, then its manifest, by digest and by tag.

    A manifest arrives last, so a push that is killed leaves nothing that can be pulled half; the next one
    finds the layers that arrived. A layer without a local file is mounted from the base's repository, or
    streamed from there once, through memory, if that is another registry.

    Args:
        published: where layers were pushed to before, by digest, the latest last; one of the target's own
            registry is mounted from there.

    Raises:
        RemoteRefusedError, UnreachableError, RemoteMovedError: by class, what the registry did.
    """
    before = client.sent
    base = Reference.parse(image.base_reference) if image.base_reference else None
    blobs = list({blob.digest: blob for blob in image.layers}.values())
    stopped = threading.Event()

    def push(blob: Blob) -> Outcome:
        known = [*(published or {}).get(blob.digest, ()), *([base] if base and blob.from_base else [])]
        with progress.task(f"push layer {blob.digest[7:19]}", blob.size) as task:
            outcome = _push_blob(client, blob, target, base, known, _Stoppable(task, stopped))
            task.note(outcome)
            return outcome

    with ThreadPoolExecutor(PARALLEL) as pool:
        pushes = [pool.submit(push, blob) for blob in blobs]
        try:
            outcomes = [done.result() for done in as_completed(pushes)]
        except BaseException:
            # An error of one layer, or the user's Ctrl-C: do not send gigabytes of the others first.
            stopped.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    if not client.has_blob(target, image.config_digest):
        client.upload(target, image.config_digest, len(image.config), lambda: BytesIO(image.config))
    digest = client.put_manifest(target.at(image.manifest_digest), image.manifest, image.manifest_media_type)
    if target.tag is not None:
        tagged = Reference(target.host, target.repository, target.tag)
        client.put_manifest(tagged, image.manifest, image.manifest_media_type)
    return PushReport(
        target,
        digest,
        outcomes.count("existing"),
        outcomes.count("mounted"),
        outcomes.count("uploaded"),
        client.sent - before,
    )


class _Stoppable:
    """A task whose work ends at the next sign of progress once `stopped` is set."""

    def __init__(self, task: Task, stopped: threading.Event) -> None:
        self._task = task
        self._stopped = stopped

    def advance(self, amount: int) -> None:
        """Count, or end the work."""
        if self._stopped.is_set():
            raise BuildError("the push was given up")
        self._task.advance(amount)

    def note(self, text: str) -> None:
        """Pass on."""
        self._task.note(text)


def _push_blob(
    client: RegistryClient,
    blob: Blob,
    target: Reference,
    base: Reference | None,
    known: Sequence[Reference],
    task: Task,
) -> Outcome:
    if client.has_blob(target, blob.digest):
        task.advance(blob.size)
        return "existing"
    location = None
    near = [place for place in known if place.name != target.name and client.can_mount(target, place)]
    if near:
        location = client.mount(target, blob.digest, near[-1])
        if location is None:
            task.advance(blob.size)
            return "mounted"
    source = _source(client, blob, base)
    client.upload(target, blob.digest, blob.size, source, location=location, sent=task.advance)
    return "uploaded"


def _source(client: RegistryClient, blob: Blob, base: Reference | None) -> Callable[[], IO[bytes]]:
    """Opens a blob's bytes: its file, or a stream from the base's registry that verifies them."""
    path = blob.path
    if path is not None:
        return lambda: path.open("rb")
    if base is None:
        raise ValueError(f"layer {blob.digest} has neither a file nor a registry")
    return lambda: BufferedReader(PieceStream(client.stream_blob(base, blob.digest)))
