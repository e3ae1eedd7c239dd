from __future__ import annotations

import io
import os
import tarfile
from contextlib import contextmanager

import docker
import pytest
import requests
from pydantic import SecretStr

from flbuild.build import docker as builder_module
from flbuild.build.docker import DockerBuilder, context_tar
from flbuild.build.engine import connect
from flbuild.build.model import CacheOptions
from flbuild.errors import BuildError, HostError, RemoteGoneError, UsageError
from flbuild.progress import Silent
from flbuild.registry.credentials import Credential

LOGIN = Credential("carol", SecretStr("open sesame"))


class Logins:
    def __init__(self, found=None):
        self.found = found

    def find(self, host):
        return self.found


class FakeEngine:
    """What the builder asks of the SDK: pulls and builds give the events they are told to."""

    def __init__(self, pulls=(), builds=()):
        self.api = self.images = self
        self.asked = {}
        self._pulls, self._builds = pulls, builds

    def get(self, name):
        raise docker.errors.ImageNotFound("no such image")

    def pull(self, repository, **options):
        self.asked["pull"] = {"repository": repository, **options}
        return iter(self._pulls)

    def build(self, fileobj, **options):
        self.asked["build"] = {"context": b"".join(fileobj), **options}
        return iter(self._builds)


@pytest.fixture
def build(make_settings, based_plan, context, monkeypatch, tmp_path):
    """`build(engine, login=..., cache=..., path=...)`: the error of a build that fails there."""

    def run(engine, login=None, cache=None, path="/nowhere"):
        @contextmanager
        def fake(*arguments):
            yield engine

        monkeypatch.setattr(builder_module, "connect", fake)
        builder = DockerBuilder(make_settings(), Logins(login), cache or CacheOptions(), {"PATH": path})
        monkeypatch.setenv("PATH", path)
        builder.check()
        with pytest.raises((BuildError, HostError, RemoteGoneError)) as caught:
            builder.build(based_plan(), context, Silent())
        return caught.value

    return run


FAILED = ({"stream": "Step 1/2 : FROM x"}, {"stream": "Step 2/2 : RUN y"}, {"error": "returned 1"})


def test_the_classic_builder_gets_the_whole_context_and_no_network(build):
    engine = FakeEngine(builds=FAILED)
    failure = build(engine)
    asked = engine.asked["build"]
    with tarfile.open(fileobj=io.BytesIO(asked["context"])) as tar:
        assert tar.getnames() == ["Dockerfile"]
    assert (asked["target"], asked["platform"], asked["network_mode"]) == ("release", "linux/arm64", "none")
    assert asked["buildargs"] == {"BASE_IMAGE": "quay.io/team/base:v1"}
    assert asked["use_config_proxy"] is False
    assert "| Step 2/2 : RUN y" in failure.what
    assert "Step 1/2" not in failure.what
    assert "Step 1/2 : FROM x" in failure.log.read_text()


def test_the_base_is_pulled_by_digest_with_the_credential_of_its_registry(build):
    engine = FakeEngine(builds=FAILED)
    build(engine, LOGIN)
    asked = engine.asked["pull"]
    assert (asked["repository"], asked["tag"]) == ("quay.io/team/base", "sha256:" + "c" * 64)
    assert asked["platform"] == "linux/arm64"
    assert asked["auth_config"] == {"username": "carol", "password": "open sesame"}
    assert "sesame" not in str({key: value for key, value in engine.asked.items() if key != "pull"})


def test_a_base_that_cannot_be_pulled_ends_before_the_build(build):
    engine = FakeEngine(pulls=({"error": "manifest unknown: manifest unknown"},))
    failure = build(engine)
    assert isinstance(failure, RemoteGoneError)
    assert "build" not in engine.asked


@pytest.mark.parametrize(
    ("raised", "error"),
    [
        (docker.errors.APIError("no space left on device"), HostError),
        (docker.errors.APIError("failed to parse the Dockerfile"), BuildError),
        (requests.ConnectionError("reset by peer"), HostError),
    ],
)
def test_what_the_sdk_raises_is_told_by_what_it_means(build, raised, error):
    engine = FakeEngine()

    def fail(**options):
        raise raised

    engine.build = fail
    failure = build(engine)
    assert type(failure) is error
    assert str(raised) in str(failure)


def test_cached_steps_are_taken_by_the_classic_builder_and_not_given(build):
    engine = FakeEngine(builds=FAILED)
    build(engine, cache=CacheOptions(("r.example/a",)))
    assert engine.asked["build"]["cache_from"] == ["r.example/a"]
    with pytest.raises(UsageError, match="--cache-to needs buildx"):
        build(engine, cache=CacheOptions(target="r.example/c"))


def test_buildx_builds_where_the_client_has_it(build, program, tmp_path):
    script = f'[ "$2" = version ] && exit 0; printf "%s\\n" "$@" > {tmp_path}/seen; exit 1'
    engine = FakeEngine()
    build(engine, cache=CacheOptions(("r.example/a",), "r.example/c"), path=program("docker", script))
    text = " ".join((tmp_path / "seen").read_text().splitlines())
    assert text.startswith("buildx build --load --progress plain --network none --platform linux/arm64")
    assert "--build-arg BASE_IMAGE=quay.io/team/base:v1" in text
    assert "--cache-from r.example/a --cache-to r.example/c" in text
    assert "build" not in engine.asked


def test_a_context_is_the_same_for_the_same_files(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name / "layers").mkdir(parents=True)
        (tmp_path / name / "layers" / "a.whl").write_bytes(b"wheel" * 1000)
        (tmp_path / name / "Dockerfile").write_text("FROM scratch\n")
    os.utime(tmp_path / "two" / "Dockerfile", (1, 1))
    (tmp_path / "two" / "Dockerfile").chmod(0o600)
    assert b"".join(context_tar(tmp_path / "one")) == b"".join(context_tar(tmp_path / "two"))


def test_an_engine_that_does_not_answer_is_this_machines_matter(tmp_path):
    environ = {"DOCKER_HOST": f"unix://{tmp_path}/absent.sock"}
    with pytest.raises(HostError, match="does not answer") as caught, connect(environ):
        pass
    assert "set DOCKER_HOST" in caught.value.remedy


def test_the_current_context_of_the_docker_client_is_honoured(tmp_path, monkeypatch):
    asked = []

    class Found:
        name, Host, TLSConfig = "arm", "ssh://arm.example", None

    monkeypatch.setattr("flbuild.build.engine.ContextAPI.get_context", lambda name: Found)
    monkeypatch.setattr(
        docker, "DockerClient", lambda **options: asked.append(options) or FakeEngineThatAnswers()
    )
    with connect({}):
        pass
    assert asked[0]["base_url"] == "ssh://arm.example"


class FakeEngineThatAnswers:
    def ping(self):
        return True

    def close(self):
        pass
