"""Fixtures for every unit test: hand-made wheels, and a package index on loopback."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote, unquote

import pytest

from flbuild.settings import IndexSettings, Settings


def _record_hash(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def _make_wheel(
    folder: Path,
    name: str,
    version: str,
    *,
    requires: Sequence[str] = (),
    tag: str = "py3-none-any",
    files: Mapping[str, bytes] | None = None,
    requires_python: str | None = None,
    metadata: str | None = None,
) -> Path:
    """Write a small valid wheel; `metadata` replaces the whole METADATA text."""
    module = name.replace("-", "_").replace(".", "_")
    info = f"{module}-{version}.dist-info"
    if metadata is None:
        lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
        lines += [f"Requires-Python: {requires_python}"] if requires_python else []
        metadata = "\n".join([*lines, *(f"Requires-Dist: {item}" for item in requires)]) + "\n"
    content = dict(files) if files is not None else {f"{module}.py": b"value = 1\n"}
    content[f"{info}/METADATA"] = metadata.encode()
    wheel = f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: {str(tag.endswith('any')).lower()}\n"
    content[f"{info}/WHEEL"] = f"{wheel}Tag: {tag}\n".encode()
    record = "".join(f"{path},sha256={_record_hash(data)},{len(data)}\n" for path, data in content.items())
    content[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{module}-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member, data in content.items():
            archive.writestr(zipfile.ZipInfo(member, (2020, 1, 1, 0, 0, 0)), data)
    return path


@dataclass
class Served:
    """A file on the fake index; `listed` is the hash on its page, `body` the bytes that are sent."""

    project: str
    filename: str
    body: bytes
    listed: str | None
    requires_python: str | None = None
    yanked: bool = False


@dataclass
class FakeIndex:
    """A package index, or several below one host: `url(id)` is the simple index of one of them."""

    port: int = 0
    files: dict[str, dict[str, Served]] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    authorizations: dict[str, str | None] = field(default_factory=dict)
    answers: dict[str, list[int]] = field(default_factory=dict)
    cut_after: dict[str, list[int]] = field(default_factory=dict)
    html: bool = False
    ranges: bool = True
    slow: float = 0.0
    password: str | None = None

    def url(self, index: str = "pypi") -> str:
        return f"http://127.0.0.1:{self.port}/{index}/simple/"

    def add(self, path: Path, index: str = "pypi", **changes: object) -> Served:
        """Serve a wheel or an sdist; `changes` override the fields of `Served`."""
        body = path.read_bytes()
        project = path.name.split("-")[0].lower().replace("_", "-").replace(".", "-")
        served = Served(project, path.name, body, hashlib.sha256(body).hexdigest())
        for key, value in changes.items():
            setattr(served, key, value)
        self.files.setdefault(index, {})[served.filename] = served
        return served

    def asked(self, part: str) -> int:
        """How many requests had `part` in their path."""
        return sum(part in path for path in self.requests)

    def page(self, index: str, project: str) -> tuple[bytes, str] | None:
        found = [item for item in self.files.get(index, {}).values() if item.project == project]
        if not found:
            return None
        if self.html:
            links = "".join(
                f'<a href="../../files/{quote(item.filename)}'
                f'{"#sha256=" + item.listed if item.listed else ""}">{item.filename}</a>\n'
                for item in found
            )
            return f"<!DOCTYPE html><html><body>{links}</body></html>".encode(), "text/html"
        entries = [
            {
                "filename": item.filename,
                "url": f"../../files/{quote(item.filename)}",
                "hashes": {"sha256": item.listed} if item.listed else {},
                "size": len(item.body),
                "requires-python": item.requires_python,
                "yanked": item.yanked,
            }
            for item in found
        ]
        page = {"meta": {"api-version": "1.1"}, "name": project, "files": entries, "versions": []}
        return json.dumps(page).encode(), "application/vnd.pypi.simple.v1+json"


def _handler(index: FakeIndex) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: object) -> None:
            pass

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            path = unquote(self.path)
            index.requests.append(path)
            index.authorizations[path] = self.headers.get("Authorization")
            status = next((some.pop(0) for part, some in index.answers.items() if part in path and some), 0)
            parts = path.strip("/").split("/")
            if status:
                self.reply(status, b"no", "text/plain")
            elif index.password and not self.headers.get("Authorization"):
                self.reply(401, b"who are you", "text/plain")
            elif len(parts) == 3 and parts[1] == "simple" and (page := index.page(parts[0], parts[2])):
                self.reply(200, *page)
            elif parts[1:2] == ["files"] and (served := index.files.get(parts[0], {}).get(parts[-1])):
                self.send_file(served)
            else:
                self.reply(404, b"absent", "text/plain")

        def send_file(self, served: Served) -> None:
            size = len(served.body)
            start, end, status = 0, size - 1, 200
            if (wanted := self.headers.get("Range")) and index.ranges:
                first, _, last = wanted.removeprefix("bytes=").partition("-")
                start = int(first) if first else max(0, size - int(last))
                end = min(int(last), size - 1) if first and last else size - 1
                status = 206 if start < size else 416
            extra = {"Accept-Ranges": "bytes", "Content-Range": f"bytes {start}-{end}/{size}"}
            cuts = index.cut_after.get(served.filename)
            self.reply(status, served.body[start : end + 1], "application/octet-stream", extra, cuts)

        def reply(
            self,
            status: int,
            body: bytes,
            kind: str,
            extra: Mapping[str, str] | None = None,
            cuts: list[int] | None = None,
        ) -> None:
            self.send_response(status)
            for key, value in {
                "Content-Type": kind,
                "Content-Length": str(len(body)),
                **(extra or {}),
            }.items():
                self.send_header(key, value)
            self.end_headers()
            if self.command == "HEAD":
                return
            if cuts:
                self.wfile.write(body[: cuts.pop(0)])
                self.close_connection = True
                return
            # `slow` is in seconds for each piece; a reader that was killed meanwhile is no error here.
            with suppress(ConnectionError):
                for start in range(0, len(body), 1 << 17):
                    self.wfile.write(body[start : start + (1 << 17)])
                    time.sleep(index.slow)

    return Handler


@pytest.fixture
def make_wheel() -> Callable[..., Path]:
    """`make_wheel(folder, name, version, requires=..., tag=..., files=..., metadata=...) -> Path`."""
    return _make_wheel


@pytest.fixture
def fake_index() -> Iterator[FakeIndex]:
    """A package index on loopback: `.url(id)`, `.add(path, id)`, `.requests`, `.answers`, `.cut_after`."""
    index = FakeIndex()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(index))
    server.daemon_threads = True
    index.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield index
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def make_settings(tmp_path: Path) -> Callable[..., Settings]:
    """`make_settings(pypi=URL, flagos=URL, find_links=(...), ...)`: settings that know only these indexes."""

    def make(
        *, find_links: Sequence[Path | str] = (), jobs: int = 4, **indexes: str | IndexSettings
    ) -> Settings:
        known = {
            index_id.replace("_", "-"): url if isinstance(url, IndexSettings) else IndexSettings(url=str(url))
            for index_id, url in indexes.items()
        }
        links = tuple(str(link) for link in find_links)
        return Settings(indexes=known, find_links=links, cache_dir=tmp_path / "cache", jobs=jobs)

    return make
