from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from flbuild.progress import Silent
from flbuild.registry.credentials import Credentials
from flbuild.settings import load_settings


def basic(user: str, password: str) -> str:
    return base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.fixture
def find(
    environ: dict[str, str], progress: Silent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[str, str] | None]:
    """`find(host, config, **variables)`: user and secret, with docker's config.json as given."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))

    def look(host: str, config: object, **variables: str) -> tuple[str, str] | None:
        folder = tmp_path / ".docker"
        folder.mkdir(exist_ok=True)
        text = config if isinstance(config, str) else json.dumps(config)
        (folder / "config.json").write_text(text)
        known = {**environ, **variables}
        found = Credentials(load_settings(None, known), progress, known).find(host)
        return (found.user, found.secret.get_secret_value()) if found else None

    return look


def add_program(tmp_path: Path, name: str, script: str) -> None:
    path = tmp_path / "bin" / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("host", "key"),
    [
        ("quay.example", "quay.example"),
        ("quay.example", "https://quay.example"),
        ("quay.example", "https://quay.example/v2/"),
        ("localhost:5000", "localhost:5000"),
        ("docker.io", "https://index.docker.io/v1/"),
        ("docker.io", "docker.io"),
    ],
)
def test_dockers_login_is_used_however_the_host_is_spelled(
    find: Callable[..., tuple[str, str] | None], host: str, key: str
) -> None:
    config = {"auths": {"other.example": {"auth": basic("no", "no")}, key: {"auth": basic("ann", "p:w")}}}
    assert find(host, config) == ("ann", "p:w")


def test_our_settings_win_over_dockers_login(find: Callable[..., tuple[str, str] | None]) -> None:
    config = {"auths": {"quay.example": {"auth": basic("ann", "pw")}}}
    own = {
        "FLBUILD_REGISTRY_QUAY_EXAMPLE_USERNAME": "bot",
        "FLBUILD_REGISTRY_QUAY_EXAMPLE_PASSWORD": "secret",
    }
    assert find("quay.example", config, **own) == ("bot", "secret")


def test_docker_config_may_be_elsewhere(find: Callable[..., tuple[str, str] | None], tmp_path: Path) -> None:
    folder = tmp_path / "ci"
    folder.mkdir()
    (folder / "config.json").write_text(
        json.dumps({"auths": {"quay.example": {"username": "ci", "password": "pw"}}})
    )
    assert find("quay.example", {}, DOCKER_CONFIG=str(folder)) == ("ci", "pw")


def test_an_identity_token_is_a_credential_without_user(find: Callable[..., tuple[str, str] | None]) -> None:
    config = {"auths": {"quay.example": {"auth": basic("ann", ""), "identitytoken": "refresh"}}}
    assert find("quay.example", config) == ("", "refresh")


@pytest.mark.parametrize(
    "config",
    [
        {},
        [],
        {"auths": {}},
        {"auths": {"quay.example": {}}},
        {"auths": {"quay.example": {"auth": "%%%"}}},
        {"auths": {"quay.example": None}},
        {"auths": ["quay.example"], "credHelpers": None},
    ],
)
def test_no_login_is_an_anonymous_visit(find: Callable[..., tuple[str, str] | None], config: object) -> None:
    assert find("quay.example", config) is None


def test_a_config_that_cannot_be_read_is_told_without_its_content(
    find: Callable[..., tuple[str, str] | None], progress: Silent
) -> None:
    assert find("quay.example", '{"auths": {"quay.example": {"auth": "c2VjcmV0"}}') is None
    assert "config.json" in progress.warnings[0]
    assert "c2VjcmV0" not in progress.warnings[0]


@pytest.mark.parametrize("config", [{"credsStore": "desk"}, {"credHelpers": {"quay.example": "desk"}}])
def test_a_helper_is_asked_for_the_host(
    find: Callable[..., tuple[str, str] | None], config: dict[str, object], tmp_path: Path
) -> None:
    script = f'cat > {tmp_path}/asked; echo \'{{"Username": "ann", "Secret": "pw"}}\''
    add_program(tmp_path, "docker-credential-desk", script)
    assert find("quay.example", config) == ("ann", "pw")
    assert (tmp_path / "asked").read_text() == "quay.example"


def test_the_helper_of_a_host_wins_over_the_general_one(
    find: Callable[..., tuple[str, str] | None], tmp_path: Path
) -> None:
    add_program(tmp_path, "docker-credential-a", 'echo \'{"Username": "a", "Secret": "1"}\'')
    add_program(tmp_path, "docker-credential-b", 'echo \'{"Username": "<token>", "Secret": "2"}\'')
    config = {"credsStore": "a", "credHelpers": {"quay.example": "b"}}
    assert find("quay.example", config) == ("", "2")
    assert find("other.example", config) == ("a", "1")


def test_docker_hub_is_asked_for_by_its_historical_name(
    find: Callable[..., tuple[str, str] | None], tmp_path: Path
) -> None:
    script = f'cat > {tmp_path}/asked; echo \'{{"Username": "ann", "Secret": "pw"}}\''
    add_program(tmp_path, "docker-credential-desk", script)
    find("docker.io", {"credsStore": "desk"})
    assert (tmp_path / "asked").read_text() == "https://index.docker.io/v1/"


def test_a_missing_helper_is_told_and_passed_over(
    find: Callable[..., tuple[str, str] | None], progress: Silent
) -> None:
    config = {"credsStore": "desktop.exe", "auths": {"quay.example": {"auth": basic("ann", "pw")}}}
    assert find("quay.example", config) == ("ann", "pw")
    assert "docker-credential-desktop.exe" in progress.warnings[0]


@pytest.mark.parametrize("script", ["exit 1", "echo no json", "echo '[]'", 'echo \'{"Username": "ann"}\''])
def test_a_helper_that_knows_nothing_or_fails_is_passed_over(
    find: Callable[..., tuple[str, str] | None], script: str, tmp_path: Path
) -> None:
    add_program(tmp_path, "docker-credential-desk", script)
    assert find("quay.example", {"credsStore": "desk"}) is None


def test_a_host_is_looked_up_once(environ: dict[str, str], progress: Silent, tmp_path: Path) -> None:
    (tmp_path / ".docker").mkdir()
    (tmp_path / ".docker/config.json").write_text('{"credsStore": "desk"}')
    add_program(tmp_path, "docker-credential-desk", f"echo >> {tmp_path}/calls; exit 1")
    credentials = Credentials(load_settings(None, environ), progress, environ)
    assert [credentials.find("quay.example") for _ in range(3)] == [None] * 3
    assert (tmp_path / "calls").read_text() == "\n"


def test_a_mirror_gets_its_own_login_and_never_that_of_the_host_it_stands_for(
    find: Callable[..., tuple[str, str] | None],
) -> None:
    auths = {"quay.example": {"auth": basic("ann", "p")}, "m.example:5000": {"auth": basic("mia", "q")}}
    redirected = {"FLBUILD_REGISTRY_QUAY_EXAMPLE_MIRROR": "m.example:5000/quay"}
    assert find("quay.example", {"auths": auths}) == ("ann", "p")
    assert find("quay.example", {"auths": auths}, **redirected) == ("mia", "q")
    del auths["m.example:5000"]
    assert find("quay.example", {"auths": auths}, **redirected) is None
