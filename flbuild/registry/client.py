"""A client of the OCI distribution protocol: manifests and blobs, verified by their digests."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

import requests
from urllib3.exceptions import HTTPError

from flbuild.errors import (
    FlbuildError,
    HostError,
    RemoteGoneError,
    RemoteMovedError,
    RemoteRefusedError,
    UnreachableError,
)
from flbuild.files import CHUNK, sha256_bytes
from flbuild.progress import Progress
from flbuild.registry.credentials import Credentials
from flbuild.registry.manifest import RemoteManifest, choose_image, read_manifest
from flbuild.registry.media_types import ACCEPT
from flbuild.registry.reference import Reference
from flbuild.registry.transport import Transport, error_codes, error_text
from flbuild.registry.upload import Upload
from flbuild.settings import Settings, registry_variable

LARGEST_MANIFEST = 4 << 20
"""Bytes: what the distribution specification asks registries to accept."""

LARGEST_BLOB = 32 << 20
"""Bytes of a blob that is held in memory, such as a config."""

DOWNLOAD_ATTEMPTS = 4
"""How often in a row a download may break without a single byte in between."""

DEEPEST_INDEX = 3

_REMEDIES = {
    405: "push to the registry itself; a mirror or a cache only reads",
    412: "the tag is immutable there; push to another tag",
    413: "let the proxy in front of the registry take larger requests (nginx: client_max_body_size)",
}


class RegistryClient:
    """Talks to any number of registries; safe to share between threads.

    Args:
        environ: for docker's configuration and its credential helpers; the process's own by default.
        wait: seconds before the second retry of a request, doubled for each one after.
    """

    def __init__(
        self,
        settings: Settings,
        progress: Progress,
        environ: Mapping[str, str] | None = None,
        *,
        wait: float = 0.5,
        offline: bool = False,
    ) -> None:
        self._offline = offline
        self._settings = settings
        self._credentials = Credentials(settings, progress, os.environ if environ is None else environ)
        self._wait = wait
        self._transports: dict[str, Transport] = {}
        self._lock = threading.Lock()

    @property
    def sent(self) -> int:
        """Bytes of request bodies to all registries."""
        return sum(transport.sent for transport in list(self._transports.values()))

    @property
    def received(self) -> int:
        """Bytes of response bodies from all registries."""
        return sum(transport.received for transport in list(self._transports.values()))

    def manifest(self, reference: Reference) -> RemoteManifest:
        """The manifest that `reference` names, its bytes checked against the digest asked for.

        Raises:
            RemoteGoneError: there is none.
            RemoteMovedError: the bytes do not have the digest.
        """
        response = self.ask(
            reference, "GET", f"manifests/{reference.target}", headers={"Accept": ACCEPT}, stream=True
        )
        with response:
            if response.status_code >= 400:
                raise self.failed(reference, response, "manifest")
            raw = self._read(reference, response, LARGEST_MANIFEST, "manifest")
            stated = response.headers.get("Docker-Content-Digest")
            content_type = response.headers.get("Content-Type", "").partition(";")[0].strip()
        digest = f"sha256:{sha256_bytes(raw)}"
        for wanted, by in ((reference.digest, "asked for"), (stated, "stated")):
            if wanted is not None and wanted.startswith("sha256:") and wanted != digest:
                raise RemoteMovedError(
                    f"{reference} came with other bytes\n  {by}: {wanted}\n  bytes: {digest}",
                    cause="a damaged or dishonest registry, mirror or proxy",
                    remedy=f"ask another one: set {registry_variable(reference.host)} to a mirror",
                )
        return read_manifest(reference, raw, digest, content_type)

    def image_manifest(self, reference: Reference, platform: str) -> tuple[RemoteManifest, RemoteManifest]:
        """What `reference` names, and the manifest of the image for `platform` in it (the same for an image).

        Raises:
            RemoteGoneError: an index without that platform, or with more than one image for it.
        """
        top = found = self.manifest(reference)
        for _ in range(DEEPEST_INDEX):
            if found.kind == "image":
                return top, found
            found = self.manifest(reference.at(choose_image(found, platform)))
        raise RemoteGoneError(f"{reference} names indexes inside of indexes, and no image for {platform}")

    def blob(self, reference: Reference, digest: str) -> bytes:
        """A small blob, such as a config, verified."""
        content = b""
        for piece in self.stream_blob(reference, digest):
            content += piece
            if len(content) > LARGEST_BLOB:
                raise _too_large(reference, f"blob {digest}", LARGEST_BLOB)
        return content

    def stream_blob(self, reference: Reference, digest: str) -> Iterator[bytes]:
        """A blob piece by piece; the last piece comes only if the digest is right.

        A download that breaks goes on from where it was.

        Raises:
            RemoteGoneError: it is not there.
            RemoteMovedError: its bytes are not those of the digest.
        """
        found = hashlib.sha256()
        held = b""
        for piece in self._pieces(reference, digest):
            found.update(piece)
            if held:
                yield held
            held = piece
        if f"sha256:{found.hexdigest()}" != digest:
            raise RemoteMovedError(
                f"blob {digest} of {reference.name} came with other bytes",
                cause="a damaged copy in a registry, mirror or proxy, or a connection that ended early",
                remedy=f"retry, or set {registry_variable(reference.host)} to a mirror",
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
        response = self.ask(reference, "HEAD", f"blobs/{digest}")
        if response.status_code == 404:
            return False
        if response.status_code >= 400:
            raise self.failed(reference, response, f"blob {digest}")
        return True

    def can_mount(self, target: Reference, source: Reference) -> bool:
        """Whether one registry holds both repositories, be it by way of a mirror setting."""
        return self._transport(target).place == self._transport(source).place

    def mount(self, target: Reference, digest: str, source: Reference) -> str | None:
        """Take a blob from another repository of the same registry.

        Returns:
            None if it is there now, else where to upload it; empty if that has to be asked for.
        """
        name = self._transport(source).repository(source.repository)
        scopes = [self._scope(target, push=True), f"repository:{name}:pull"]
        params = {"mount": digest, "from": name}
        try:
            response = self.ask(target, "POST", "blobs/uploads/", params=params, scopes=scopes)
        except RemoteRefusedError:
            # The credential may write to one repository and not read the other.
            return ""
        if response.status_code == 201:
            return None
        return response.headers.get("Location", "") if response.status_code == 202 else ""

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
            sent: told how many bytes arrived; a negative number takes back what was lost again.

        Raises:
            RemoteMovedError: the registry says that the bytes do not have the digest.
        """
        Upload(self, target, digest, size, open_source, sent).run(location)

    def put_manifest(self, target: Reference, raw: bytes, media_type: str) -> str:
        """Put a manifest by tag or digest and give its digest.

        Raises:
            RemoteMovedError: the registry stored it under another digest.
        """
        digest = f"sha256:{sha256_bytes(raw)}"
        response = self.ask(
            target,
            "PUT",
            f"manifests/{target.target}",
            headers={"Content-Type": media_type},
            data=raw,
            push=True,
        )
        if response.status_code >= 400:
            raise self.failed(target, response, "manifest")
        stated = response.headers.get("Docker-Content-Digest", digest)
        if stated.startswith("sha256:") and stated != digest:
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
            response = self.ask(reference, "GET", path)
            if response.status_code == 404:
                return ()
            if response.status_code >= 400:
                raise self.failed(reference, response, "tags")
            try:
                found += response.json().get("tags") or ()
            except (ValueError, AttributeError) as error:
                raise self.unreachable(reference, "its list of tags cannot be read") from error
            path = response.links.get("next", {}).get("url")
        return tuple(sorted(found))

    def ask(
        self,
        reference: Reference,
        method: str,
        path: str,
        *,
        push: bool = False,
        scopes: Sequence[str] | None = None,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, str] | None = None,
        data: bytes | None = None,
        stream: bool = False,
    ) -> requests.Response:
        """One request about a repository; `path` is below it, or absolute as a registry gave it."""
        transport = self._transport(reference)
        if "://" not in path and not path.startswith("/"):
            path = f"{transport.repository(reference.repository)}/{path}"
        return transport.request(
            method,
            path,
            scopes=scopes or [self._scope(reference, push=push)],
            headers=headers,
            params=params,
            data=data,
            stream=stream,
        )

    def failed(self, reference: Reference, response: requests.Response, what: str) -> FlbuildError:
        """The error for a response with a bad status."""
        said = error_text(response)
        if response.status_code == 404:
            thing = "repository" if "NAME_UNKNOWN" in error_codes(response) else what
            return RemoteGoneError(
                f"{reference}: the registry has no such {thing}",
                cause=said
                or "it was deleted: registries collect a digest soon after its last tag moves or goes",
                remedy="check the name; pin an image that a tag keeps alive, or set "
                f"{registry_variable(reference.host)} to a mirror that still has it",
            )
        answer = f"status {response.status_code}{f', {said}' if said else ''}"
        if 400 <= response.status_code < 500:
            return RemoteRefusedError(
                f"{reference}: the registry refuses the {what}",
                cause=answer,
                remedy=_REMEDIES.get(response.status_code, "see the log of the registry"),
            )
        return self.unreachable(reference, f"{what} of {reference}: {answer}")

    def unreachable(self, reference: Reference, cause: str) -> UnreachableError:
        """The error for a registry that does not work."""
        return self._transport(reference).unreachable(cause)

    def _transport(self, reference: Reference) -> Transport:
        if self._offline:
            raise HostError(
                f"registry {reference.host} has to be asked, and --offline forbids it",
                remedy="run once without --offline",
            )
        with self._lock:
            if reference.host not in self._transports:
                self._transports[reference.host] = Transport(
                    reference.host, self._settings, self._credentials, wait=self._wait
                )
            return self._transports[reference.host]

    def _scope(self, reference: Reference, *, push: bool) -> str:
        name = self._transport(reference).repository(reference.repository)
        return f"repository:{name}:{'pull,push' if push else 'pull'}"

    def _pieces(self, reference: Reference, digest: str) -> Iterator[bytes]:
        """A blob's bytes, not yet verified."""
        offset = 0
        broken = 0
        while True:
            headers = {"Range": f"bytes={offset}-"} if offset else {}
            response = self.ask(reference, "GET", f"blobs/{digest}", headers=headers, stream=True)
            with response:
                if response.status_code >= 400:
                    raise self.failed(reference, response, f"blob {digest}")
                # A server that knows no ranges starts over.
                skip = 0 if response.status_code == 206 else offset
                try:
                    for piece in response.raw.stream(CHUNK, decode_content=False):
                        self._transport(reference).count_received(len(piece))
                        new = piece[skip:]
                        skip -= len(piece) - len(new)
                        if new:
                            broken = 0
                            offset += len(new)
                            yield new
                    return
                except HTTPError as error:
                    broken += 1
                    if broken == DOWNLOAD_ATTEMPTS:
                        raise self._transport(reference).unreachable(error) from error

    def _read(self, reference: Reference, response: requests.Response, largest: int, what: str) -> bytes:
        raw = b""
        try:
            for piece in response.raw.stream(1 << 16, decode_content=False):
                raw += piece
                if len(raw) > largest:
                    raise _too_large(reference, what, largest)
        except HTTPError as error:
            raise self._transport(reference).unreachable(error) from error
        self._transport(reference).count_received(len(raw))
        return raw


def _too_large(reference: Reference, what: str, largest: int) -> RemoteMovedError:
    return RemoteMovedError(
        f"{reference}: its {what} is larger than {largest} bytes", cause="what answers is no registry"
    )
