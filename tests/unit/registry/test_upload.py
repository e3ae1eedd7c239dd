from __future__ import annotations

import io
from collections.abc import Callable

import pytest

from flbuild.errors import RemoteMovedError, RemoteRefusedError, UnreachableError
from flbuild.registry import upload as upload_module
from flbuild.registry.client import RegistryClient

from .fake_registry import Answer, FakeRegistry, digest_of

CONTENT = bytes(range(256)) * 10


@pytest.fixture
def send(
    client: RegistryClient, registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., list[int]]:
    """Upload `CONTENT` in chunks of 1000 bytes; gives what was reported as sent."""
    monkeypatch.setattr(upload_module, "CHUNK", 1000)

    def upload(content: bytes = CONTENT, digest: str | None = None) -> list[int]:
        sent: list[int] = []
        client.upload(
            registry.reference(),
            digest or digest_of(content),
            len(content),
            lambda: io.BytesIO(content),
            sent=sent.append,
        )
        return sent

    return upload


def test_a_small_blob_takes_two_requests(send: Callable[..., list[int]], registry: FakeRegistry) -> None:
    assert sum(send(b"small")) == 5
    assert [method for method, _ in registry.requests] == ["POST", "PUT"]
    assert registry.blobs[digest_of(b"small")] == b"small"


def test_a_large_blob_goes_in_chunks(send: Callable[..., list[int]], registry: FakeRegistry) -> None:
    assert send() == [1000, 1000, 560]
    assert registry.asked("PATCH", "") == 3
    assert registry.blobs[digest_of(CONTENT)] == CONTENT


def test_a_short_read_of_the_source_makes_no_short_chunk(
    client: RegistryClient, registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Trickle(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            return super().read(min(size or 0, 7))

    monkeypatch.setattr(upload_module, "CHUNK", 1000)
    digest = digest_of(CONTENT)
    client.upload(registry.reference(), digest, len(CONTENT), lambda: Trickle(CONTENT))
    assert registry.asked("PATCH", "") == 3
    assert registry.blobs[digest] == CONTENT


def test_a_broken_chunk_goes_on_from_what_has_arrived(
    send: Callable[..., list[int]], registry: FakeRegistry
) -> None:
    registry.lose_chunk_after = [400, 0]
    assert sum(send()) == len(CONTENT)
    ranges = [head["Content-Range"] for head in registry.headers if "Content-Range" in head]
    assert ranges[:3] == ["0-999", "400-999", "400-999"]
    assert registry.blobs[digest_of(CONTENT)] == CONTENT


def test_a_chunk_whose_answer_got_lost_is_not_sent_twice(
    send: Callable[..., list[int]], registry: FakeRegistry
) -> None:
    registry.lose_chunk_after = [1000]
    assert sum(send()) == len(CONTENT)
    ranges = [head["Content-Range"] for head in registry.headers if "Content-Range" in head]
    assert ranges == ["0-999", "1000-1999", "2000-2559"]


def test_a_server_error_on_a_chunk_is_tried_again(
    send: Callable[..., list[int]], registry: FakeRegistry
) -> None:
    registry.on("PATCH", "uploads", Answer(503), Answer(500))
    send()
    assert registry.blobs[digest_of(CONTENT)] == CONTENT


def test_an_upload_that_the_registry_forgot_starts_over(
    send: Callable[..., list[int]], registry: FakeRegistry
) -> None:
    registry.on("PATCH", "state=c", Answer.error(404, "BLOB_UPLOAD_UNKNOWN"))
    sent = send()
    assert sent == [1000, -1000, 1000, 1000, 560]
    assert registry.asked("POST", "uploads") == 2


def test_bytes_that_the_registry_lost_make_it_start_over(
    send: Callable[..., list[int]], registry: FakeRegistry
) -> None:
    registry.on("PATCH", "state=c", Answer(500))
    registry.on("GET", "uploads", Answer(204, headers={"Range": "0-0"}))
    assert sum(send()) == len(CONTENT)
    assert registry.blobs[digest_of(CONTENT)] == CONTENT
    assert registry.asked("POST", "uploads") == 2


def test_a_registry_that_always_forgets_is_given_up(
    send: Callable[..., list[int]], registry: FakeRegistry
) -> None:
    registry.on("PATCH", "uploads", *[Answer.error(404, "BLOB_UPLOAD_UNKNOWN")] * 99)
    with pytest.raises(UnreachableError, match="forgets uploads"):
        send()


def test_a_chunk_that_never_arrives_is_given_up(
    send: Callable[..., list[int]], registry: FakeRegistry
) -> None:
    registry.on("PATCH", "uploads", *[Answer(502)] * 99)
    with pytest.raises(UnreachableError, match="status 502"):
        send()
    assert registry.asked("PATCH", "uploads") == 4


def test_a_finish_whose_answer_got_lost_counts_if_the_blob_is_there(
    send: Callable[..., list[int]], registry: FakeRegistry
) -> None:
    registry.add_blob(CONTENT)
    registry.on("PUT", "uploads", Answer.error(404, "BLOB_UPLOAD_UNKNOWN"))
    send()
    assert registry.asked("POST", "uploads") == 1


def test_bytes_that_are_not_the_digest_are_named_as_such(send: Callable[..., list[int]]) -> None:
    with pytest.raises(RemoteMovedError, match="file changed"):
        send(digest=digest_of(b"something else"))


def test_a_blob_stored_under_another_digest_is_an_error(
    send: Callable[..., list[int]], registry: FakeRegistry
) -> None:
    registry.on("PUT", "uploads", Answer(201, headers={"Docker-Content-Digest": digest_of(b"x")}))
    with pytest.raises(RemoteMovedError, match="another digest"):
        send()


def test_a_registry_without_uploads_refuses_them(
    send: Callable[..., list[int]], registry: FakeRegistry
) -> None:
    registry.on("POST", "uploads", Answer.error(405, "UNSUPPORTED", "pull-through cache"))
    with pytest.raises(RemoteRefusedError, match="pull-through cache"):
        send()


def test_every_byte_of_a_body_is_counted_once_for_each_time_it_is_sent(
    send: Callable[..., list[int]], client: RegistryClient, registry: FakeRegistry
) -> None:
    send()
    assert client.sent == len(CONTENT)
    registry.on("PUT", "uploads", Answer(503))
    send(b"small")
    assert client.sent == len(CONTENT) + 2 * len(b"small")
