"""A client of the OCI distribution protocol: manifests and blobs, verified by their digests."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import requests

from flbuild.errors import RemoteGoneError, RemoteMovedError, UnreachableError
from flbuild.files import CHUNK, sha256_bytes
from flbuild.progress import Progress
from flbuild.registry.media_types import ACCEPT, INDEXES, MANIFESTS, OCI_INDEX, OCI_MANIFEST
from flbuild.registry.reference import Reference
from flbuild.registry.transport import Transport, error_codes, error_text
from flbuild.settings import Settings, registry_variable

LARGEST_MANIFEST = 4 << 20
"""Bytes: what the distribution specification asks registries to accept."""

UPLOAD_CHUNK = 32 << 20
"""Bytes per request of a large upload: what a broken connection costs at most."""

UPLOAD_ATTEMPTS = 4


@dataclass(frozen=True)
class RemoteManifest:
    """A manifest exactly as a registry holds it; `digest` is the SHA-256 of `raw`."""

    reference: Reference
    raw: bytes
    digest: str
    media_type: str

    @property
    def content(self) -> dict[str, Any]:
        """The parsed manifest."""
        parsed = json.loads(self.raw)
        return parsed if isinstance(parsed, dict) else {}

    @property
    def kind(self) -> str:
        """`index` or `image`."""
        return "index" if self.media_type in INDEXES else "image"


class RegistryClient:
    """Talks to any number of registries; safe to share between threads.

    Args:
        environ: for docker's configuration and its credential helpers; the process's own by default.
    """

    def __init__(
        self, settings: Settings, progress: Progress, environ: Mapping[str, str] | None = None
    ) -> None:
        self._settings = settings
        self._progress = progress
        self._environ = os.environ if environ is None else environ
        self._transports: dict[str, Transport] = {}
        self._lock = threading.Lock()

    @property
    def sent(self) -> int:
        """Bytes of request bodies to all registries."""
        return sum(transport.sent for transport in self._transports.values())

    @property
    def received(self) -> int:
        """Bytes of response bodies from all registries."""
        return sum(transport.received for transport in self._transports.values())

    def manifest(self, reference: Reference) -> RemoteManifest:
        """The manifest that `reference` names, its bytes checked against the digest asked for.

        Raises:
            RemoteGoneError: there is none.
            RemoteMovedError: the bytes do not have the digest.
        """
        response = self._ask(
            reference, "GET", f"manifests/{reference.target}", headers={"Accept": ACCEPT}, stream=True
        )
        with response:
            if response.status_code >= 400:
                raise self._failed(reference, response, "manifest")
            raw = self._read_manifest(reference, response)
            stated = response.headers.get("Docker-Content-Digest")
            content_type = response.headers.get("Content-Type", "").partition(";")[0].strip()
        digest = f"sha256:{sha256_bytes(raw)}"
        for wanted, by in ((reference.digest, "asked for"), (stated, "stated by the registry")):
            if wanted is not None and wanted.startswith("sha256:") and wanted != digest:
                raise RemoteMovedError(
                    f"{reference} came with other bytes\n  {by}: {wanted}\n  bytes: {digest}",
                    cause="a damaged or dishonest registry, mirror or proxy",
                    remedy=f"ask another one: set {registry_variable(reference.host)}",
                )
        return RemoteManifest(reference, raw, digest, _media_type(raw, content_type))

    def image_manifest(self, reference: Reference, platform: str) -> tuple[RemoteManifest, RemoteManifest]:
        """What `reference` names, and the manifest of the image for `platform` in it (the same for an image).

        Raises:
            RemoteGoneError: an index without that platform, or with more than one image for it.
        """
        top = self.manifest(reference)
        if top.kind == "image":
            return top, top
        os_name, _, architecture = platform.partition("/")
        found = [
            child
            for child in top.content.get("manifests", ())
            if child.get("platform", {}).get("os") == os_name
            and child.get("platform", {}).get("architecture") == architecture
        ]
        if len(found) != 1:
            offered = ", ".join(
                f"{child.get('platform', {}).get('os')}/{child.get('platform', {}).get('architecture')}"
                for child in top.content.get("manifests", ())
            )
            raise RemoteGoneError(
                f"{reference} has {len(found) or 'no'} images for {platform}",
                cause=f"its index offers {offered or 'nothing'}",
                remedy="correct the platform in the recipe, or name another image",
            )
        return top, self.manifest(reference.at(found[0]["digest"]))

    def blob(self, reference: Reference, digest: str) -> bytes:
        """A small blob, such as a config, verified."""
        return b"".join(self.stream_blob(reference, digest))

    def stream_blob(self, reference: Reference, digest: str) -> Iterator[bytes]:
        """A blob piece by piece; the last piece comes only if the digest is right.

        Raises:
            RemoteGoneError: it is not there.
            RemoteMovedError: its bytes are not those of the digest.
        """
        response = self._ask(reference, "GET", f"blobs/{digest}", stream=True)
        with response:
            if response.status_code >= 400:
                raise self._failed(reference, response, f"blob {digest}")
            found = hashlib.sha256()
            held = b""
            try:
                for piece in response.iter_content(CHUNK):
                    self._transport(reference).count_received(len(piece))
                    found.update(piece)
                    if held:
                        yield held
                    held = piece
            except requests.RequestException as error:
                raise self._transport(reference).unreachable(error) from error
        if f"sha256:{found.hexdigest()}" != digest:
            raise RemoteMovedError(
                f"blob {digest} of {reference.name} came with other bytes",
                cause="a damaged copy in a registry, mirror or proxy, or a connection that ended early",
                remedy="retry, or ask another registry",
            )
        yield held

    def save_blob(self, reference: Reference, digest: str, path: Path) -> None:
        """Write a blob to `path`, which is new; it is removed again if its bytes are wrong."""
        try:
            with path.open("xb") as stream:
                for piece in self.stream_blob(reference, digest):
                    stream.write(piece)
        except BaseException:
            path.unlink(missing_ok=True)
            raise

    def has_blob(self, reference: Reference, digest: str) -> bool:
        """Whether the repository has a blob."""
        response = self._ask(reference, "HEAD", f"blobs/{digest}")
        if response.status_code == 404:
            return False
        if response.status_code >= 400:
            raise self._failed(reference, response, f"blob {digest}")
        return True

    def mount(self, target: Reference, digest: str, source: Reference) -> str | None:
        """Take a blob from another repository of the same registry.

        Returns:
            None if it is there now, else where to upload it.
        """
        transport = self._transport(target)
        params = {"mount": digest, "from": transport.repository(source.repository)}
        scope = f"{self._scope(target, push=True)} repository:{params['from']}:pull"
        response = self._ask(target, "POST", "blobs/uploads/", params=params, scope=scope)
        if response.status_code == 201:
            return None
        return self._upload_location(target, response)

    def upload(
        self,
        target: Reference,
        digest: str,
        size: int,
        open_source: Callable[[], IO[bytes]],
        *,
        location: str | None = None,
        sent: Callable[[int], None] = lambda amount: None,
    ) -> None:
        """Put a blob into a repository; a large one in chunks, going on after a broken connection.

        Args:
            open_source: opens the bytes from their start.
            location: where to upload, from `mount`.
            sent: told how many bytes arrived.

        Raises:
            RemoteMovedError: the registry says that the bytes do not have the digest.
        """
        if location is None:
            started = self._ask(target, "POST", "blobs/uploads/", push=True)
            location = self._upload_location(target, started)
        with open_source() as source:
            if size <= UPLOAD_CHUNK:
                self._finish(target, location, digest, source.read())
                sent(size)
                return
            offset = 0
            broken = 0
            while offset < size:
                source.seek(offset)
                piece = source.read(UPLOAD_CHUNK)
                try:
                    location = self._patch(target, location, offset, piece)
                except UnreachableError:
                    broken += 1
                    if broken >= UPLOAD_ATTEMPTS:
                        raise
                    location, arrived = self._progress_of(target, location, offset)
                    sent(arrived - offset)
                    offset = arrived
                    continue
                sent(len(piece))
                offset += len(piece)
        self._finish(target, location, digest, b"")

    def put_manifest(self, target: Reference, raw: bytes, media_type: str) -> str:
        """Put a manifest by tag or digest and give its digest.

        Raises:
            RemoteMovedError: the registry stored it under another digest.
        """
        digest = f"sha256:{sha256_bytes(raw)}"
        response = self._ask(
            target,
            "PUT",
            f"manifests/{target.target}",
            headers={"Content-Type": media_type},
            data=raw,
            push=True,
        )
        if response.status_code >= 400:
            raise self._failed(target, response, "manifest")
        stated = response.headers.get("Docker-Content-Digest", digest)
        if stated != digest:
            raise RemoteMovedError(
                f"{target} was stored under another digest\n  sent:   {digest}\n  stored: {stated}",
                cause="the registry converts manifests",
                remedy="use a registry that keeps manifests byte for byte",
            )
        return digest

    def tags(self, reference: Reference) -> tuple[str, ...]:
        """All tags of a repository, sorted; none for a repository that does not exist."""
        found: list[str] = []
        path: str | None = "tags/list"
        while path:
            response = self._ask(reference, "GET", path)
            if response.status_code == 404:
                return ()
            if response.status_code >= 400:
                raise self._failed(reference, response, "tags")
            found += response.json().get("tags") or ()
            path = response.links.get("next", {}).get("url")
        return tuple(sorted(found))

    def _transport(self, reference: Reference) -> Transport:
        with self._lock:
            if reference.host not in self._transports:
                self._transports[reference.host] = Transport(
                    reference.host, self._settings, self._progress, self._environ
                )
            return self._transports[reference.host]

    def _scope(self, reference: Reference, *, push: bool) -> str:
        name = self._transport(reference).repository(reference.repository)
        return f"repository:{name}:{'pull,push' if push else 'pull'}"

    def _ask(
        self,
        reference: Reference,
        method: str,
        path: str,
        *,
        push: bool = False,
        scope: str | None = None,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, str] | None = None,
        data: bytes | None = None,
        stream: bool = False,
    ) -> requests.Response:
        transport = self._transport(reference)
        if "://" not in path and not path.startswith("/"):
            path = f"{transport.repository(reference.repository)}/{path}"
        return transport.request(
            method,
            path,
            scope=scope or self._scope(reference, push=push),
            headers=headers,
            params=params,
            data=data,
            size=len(data or b""),
            stream=stream,
        )

    def _read_manifest(self, reference: Reference, response: requests.Response) -> bytes:
        raw = b""
        for piece in response.iter_content(1 << 16):
            raw += piece
            if len(raw) > LARGEST_MANIFEST:
                raise RemoteMovedError(
                    f"the manifest of {reference} is larger than {LARGEST_MANIFEST} bytes",
                    cause="what answers is no registry",
                )
        self._transport(reference).count_received(len(raw))
        return raw

    def _upload_location(self, target: Reference, response: requests.Response) -> str:
        location = response.headers.get("Location")
        if response.status_code != 202 or location is None:
            raise self._failed(target, response, "upload")
        return location

    def _patch(self, target: Reference, location: str, offset: int, piece: bytes) -> str:
        headers = {
            "Content-Type": "application/octet-stream",
            "Content-Range": f"{offset}-{offset + len(piece) - 1}",
        }
        response = self._ask(target, "PATCH", location, headers=headers, data=piece, push=True)
        if response.status_code >= 500:
            raise self._transport(target).unreachable(f"it answers with status {response.status_code}")
        return self._upload_location(target, response)

    def _progress_of(self, target: Reference, location: str, offset: int) -> tuple[str, int]:
        """Where an upload goes on after a broken request, and how many bytes have arrived."""
        response = self._ask(target, "GET", location, push=True)
        if response.status_code not in (202, 204):
            raise self._failed(target, response, "upload")
        _, _, last = response.headers.get("Range", "").partition("-")
        arrived = int(last) + 1 if last.isdigit() and int(last) > 0 else 0
        return response.headers.get("Location", location), max(arrived, 0)

    def _finish(self, target: Reference, location: str, digest: str, rest: bytes) -> None:
        response = self._ask(
            target,
            "PUT",
            location,
            params={"digest": digest},
            headers={"Content-Type": "application/octet-stream"},
            data=rest,
            push=True,
        )
        if response.status_code != 201:
            raise self._failed(target, response, f"blob {digest}")

    def _failed(
        self, reference: Reference, response: requests.Response, what: str
    ) -> RemoteGoneError | RemoteMovedError | UnreachableError:
        said = error_text(response)
        if response.status_code == 404:
            unknown = "NAME_UNKNOWN" in error_codes(response)
            thing = "repository" if unknown else what
            return RemoteGoneError(
                f"{reference}: the registry has no such {thing}",
                cause=said
                or "it was deleted: registries collect a digest soon after its last tag moves or goes",
                remedy="check the name; pin an image that a tag keeps alive, or set "
                f"{registry_variable(reference.host)} to a mirror that still has it",
            )
        if "DIGEST_INVALID" in error_codes(response):
            return RemoteMovedError(f"{reference}: the registry received other bytes of {what}", cause=said)
        return self._transport(reference).unreachable(
            f"{what} of {reference}: status {response.status_code}{f', {said}' if said else ''}"
        )


def _media_type(raw: bytes, content_type: str) -> str:
    """What a manifest is: by its own word, else by the header, else by its shape."""
    content = json.loads(raw) if raw.lstrip().startswith(b"{") else {}
    stated = content.get("mediaType") or content_type
    if stated in INDEXES | MANIFESTS:
        return str(stated)
    return OCI_INDEX if "manifests" in content else OCI_MANIFEST
