"""A registry on loopback that does as told: it stores, asks for tokens, breaks connections, lies."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from flbuild.registry.reference import Reference

OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


@dataclass(frozen=True)
class Answer:
    """A scripted answer, given once; `cut` closes the connection after so many bytes of the body."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None

    @classmethod
    def error(cls, status: int, code: str, message: str = "", **headers: str) -> Answer:
        body = json.dumps({"errors": [{"code": code, "message": message}]}).encode()
        return cls(status, body, {name.replace("_", "-"): value for name, value in headers.items()})


@dataclass
class FakeRegistry:
    """Serves what it was given, unless `script` has an answer for a method and a part of the path."""

    port: int = 0
    manifests: dict[str, bytes] = field(default_factory=dict)
    types: dict[bytes, str] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)
    uploads: dict[str, bytearray] = field(default_factory=dict)
    tags: list[str] = field(default_factory=list)
    script: dict[tuple[str, str], list[Answer]] = field(default_factory=dict)
    requests: list[tuple[str, str]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    auth: str | None = None
    realm: str | None = None
    users: dict[str, str] = field(default_factory=dict)
    identity_tokens: set[str] = field(default_factory=set)
    issued: list[tuple[str, ...]] = field(default_factory=list)
    accepted: set[str] = field(default_factory=set)
    ranges: bool = True
    lose_chunk_after: list[int] = field(default_factory=list)

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def reference(self, text: str = "team/image:1") -> Reference:
        return Reference.parse(f"{self.host}/{text}")

    def add_manifest(self, content: object, *names: str, media_type: str = OCI_MANIFEST) -> str:
        """Serve a manifest (bytes, or something for JSON) by its digest and by names."""
        raw = content if isinstance(content, bytes) else json.dumps(content).encode()
        for name in (*names, digest_of(raw)):
            self.manifests[name] = raw
        self.types[raw] = media_type
        return digest_of(raw)

    def add_blob(self, content: bytes) -> str:
        self.blobs[digest_of(content)] = content
        return digest_of(content)

    def on(self, method: str, part: str, *answers: Answer) -> None:
        """Give these answers, one after the other, to requests with `part` in their path."""
        self.script.setdefault((method, part), []).extend(answers)

    def asked(self, method: str, part: str) -> int:
        return sum(seen == method and part in path for seen, path in self.requests)


def _handler(registry: FakeRegistry) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 10
        disable_nagle_algorithm = True

        def log_message(self, *args: object) -> None:
            pass

        def reply(self, status: int, body: bytes = b"", cut: int | None = None, **headers: str) -> None:
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body if cut is None else body[:cut])
            if cut is not None:
                self.close_connection = True

        def error(self, status: int, code: str, **headers: str) -> None:
            body = json.dumps({"errors": [{"code": code, "message": code.lower()}]}).encode()
            self.reply(status, body, **headers)

        def handle_any(self) -> None:
            registry.requests.append((self.command, self.path))
            registry.headers.append(dict(self.headers))
            url = urlsplit(self.path)
            self.query = parse_qs(url.query)
            if self.command == "PATCH" and registry.lose_chunk_after:
                # The connection breaks in the middle of a chunk, of which a part has arrived.
                upload = registry.uploads[url.path.rpartition("/")[2]]
                upload += self.rfile.read(registry.lose_chunk_after.pop(0))
                self.close_connection = True
                self.connection.close()
                return
            self.content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            for (method, part), answers in registry.script.items():
                if method == self.command and part in self.path and answers:
                    answer = answers.pop(0)
                    self.reply(answer.status, answer.body, answer.cut, **answer.headers)
                    return
            if url.path == "/token":
                self.token()
            elif registry.auth and self.headers.get("Authorization") not in self.known():
                self.error(401, "UNAUTHORIZED", WWW_Authenticate=self.challenge())
            else:
                self.serve(url.path.removeprefix("/v2/"))

        do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = handle_any

        def known(self) -> set[str]:
            pairs = {f"{user}:{password}" for user, password in registry.users.items()}
            basic = {f"Basic {base64.b64encode(pair.encode()).decode()}" for pair in pairs}
            return basic if registry.auth == "basic" else registry.accepted

        def challenge(self) -> str:
            if registry.auth == "basic":
                return 'Basic realm="fake"'
            realm = registry.realm or f"http://{registry.host}/token"
            return f'Bearer realm="{realm}",service="fake",scope="repository:other:pull"'

        def token(self) -> None:
            given = self.headers.get("Authorization")
            pairs = {f"{user}:{password}" for user, password in registry.users.items()}
            basic = {f"Basic {base64.b64encode(pair.encode()).decode()}" for pair in pairs}
            form = parse_qs(self.content.decode())
            refused = given is not None and given not in basic
            refused |= bool(form) and form["refresh_token"][0] not in registry.identity_tokens
            refused |= registry.auth == "members" and given is None and not form
            if refused:
                self.error(401, "UNAUTHORIZED")
                return
            scopes = tuple(form["scope"][0].split()) if form else tuple(self.query.get("scope", ()))
            registry.issued.append(scopes)
            name = f"token-{len(registry.issued)}"
            registry.accepted.add(f"Bearer {name}")
            self.reply(200, json.dumps({"token": name}).encode())

        def serve(self, path: str) -> None:
            rest = path.partition("/manifests/")[2]
            if rest and self.command == "PUT":
                registry.add_manifest(self.content, rest, media_type=self.headers["Content-Type"])
                self.reply(201, Docker_Content_Digest=digest_of(self.content))
            elif rest and (raw := registry.manifests.get(rest)) is not None:
                kind = registry.types[raw]
                self.reply(200, raw, Content_Type=kind, Docker_Content_Digest=digest_of(raw))
            elif rest:
                self.error(404, "MANIFEST_UNKNOWN")
            elif "/blobs/uploads/" in path:
                self.upload(path.rpartition("/")[2])
            elif "/blobs/" in path:
                self.blob(path.rpartition("/")[2])
            elif path.endswith("/tags/list"):
                self.reply(200, json.dumps({"tags": registry.tags}).encode())
            else:
                self.error(404, "NAME_UNKNOWN")

        def blob(self, digest: str) -> None:
            content = registry.blobs.get(digest)
            if content is None:
                self.error(404, "BLOB_UNKNOWN")
            elif registry.ranges and (wanted := self.headers.get("Range")):
                start = int(wanted.removeprefix("bytes=").rstrip("-"))
                self.reply(206, content[start:])
            else:
                self.reply(200, content)

        def upload(self, name: str) -> None:
            if not name:
                mounted = self.query.get("mount", [""])[0]
                if mounted in registry.blobs:
                    self.reply(201)
                    return
                name = f"upload{len(registry.uploads)}"
                registry.uploads[name] = bytearray()
                self.reply(202, Location=f"/v2/x/blobs/uploads/{name}?state=a%2Fb")
                return
            upload = registry.uploads.get(name)
            if upload is None:
                self.error(404, "BLOB_UPLOAD_UNKNOWN")
                return
            place = f"http://{registry.host}/v2/x/blobs/uploads/{name}?state=c"
            if self.command == "GET":
                self.reply(204, Location=place, Range=f"0-{max(len(upload) - 1, 0)}")
            elif self.command == "PATCH":
                start = int(self.headers["Content-Range"].partition("-")[0])
                if start != len(upload):
                    self.error(416, "RANGE_INVALID")
                    return
                upload += self.content
                self.reply(202, Location=place, Range=f"0-{len(upload) - 1}")
            else:
                content, wanted = bytes(upload) + self.content, self.query["digest"][0]
                del registry.uploads[name]
                if digest_of(content) != wanted:
                    self.error(400, "DIGEST_INVALID")
                    return
                registry.blobs[wanted] = content
                self.reply(201, Docker_Content_Digest=wanted)

    return Handler


@contextmanager
def serve() -> Iterator[FakeRegistry]:
    """A running fake registry."""
    fake = FakeRegistry()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(fake))
    server.daemon_threads = True
    fake.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield fake
    server.shutdown()
    server.server_close()
    thread.join()
