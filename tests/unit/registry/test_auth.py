from __future__ import annotations

import base64
import json
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from flbuild.errors import RemoteRefusedError, UnreachableError
from flbuild.progress import Silent
from flbuild.registry.auth import Authorizer
from flbuild.registry.client import RegistryClient
from flbuild.registry.credentials import Credentials
from flbuild.settings import load_settings

from .fake_registry import Answer, FakeRegistry

MakeClient = Callable[..., RegistryClient]


@pytest.fixture
def image(registry: FakeRegistry) -> FakeRegistry:
    """A registry that gives tokens to anyone, with one image and one member."""
    registry.add_manifest({"layers": []}, "1")
    registry.auth, registry.users = "token", {"ann": "pw of ann"}
    return registry


def as_user(registry: FakeRegistry, user: str = "ann", password: str = "pw of ann") -> dict[str, str]:
    name = f"FLBUILD_REGISTRY_127_0_0_1_{registry.port}"
    return {f"{name}_USERNAME": user, f"{name}_PASSWORD": password}


def log_in(tmp_path: Path, registry: FakeRegistry, entry: dict[str, str]) -> None:
    (tmp_path / ".docker").mkdir()
    (tmp_path / ".docker/config.json").write_text(json.dumps({"auths": {registry.host: entry}}))


def test_b73_a_public_image_is_pulled_with_an_anonymous_token(
    client: RegistryClient, image: FakeRegistry
) -> None:
    client.manifest(image.reference())
    assert image.issued == [("repository:team/image:pull",)]


def test_b73_a_missing_helper_does_not_block_a_public_pull(
    make_client: MakeClient, image: FakeRegistry, tmp_path: Path, progress: Silent
) -> None:
    (tmp_path / ".docker").mkdir()
    (tmp_path / ".docker/config.json").write_text('{"credsStore": "desktop"}')
    make_client().manifest(image.reference())
    assert len(progress.warnings) == 1


def test_a_token_is_kept_for_its_scope_and_each_scope_has_its_own(
    client: RegistryClient, image: FakeRegistry
) -> None:
    for _ in range(3):
        client.manifest(image.reference())
    client.put_manifest(image.reference("team/image:2"), b'{"layers": []}', "application/json")
    assert image.issued == [("repository:team/image:pull",), ("repository:team/image:pull,push",)]


def test_an_expired_token_is_renewed_once(client: RegistryClient, image: FakeRegistry) -> None:
    client.manifest(image.reference())
    image.accepted.clear()
    client.manifest(image.reference())
    assert len(image.issued) == 2


def test_a_token_that_is_not_accepted_is_asked_for_once_only(
    client: RegistryClient, image: FakeRegistry
) -> None:
    image.on(
        "GET", "/manifests/1", *[Answer.error(401, "UNAUTHORIZED", WWW_Authenticate=challenge(image))] * 9
    )
    with pytest.raises(RemoteRefusedError, match="status 401"):
        client.manifest(image.reference())
    assert image.asked("GET", "/manifests/1") == 2


def test_threads_share_a_token(client: RegistryClient, image: FakeRegistry) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: client.manifest(image.reference()), range(16)))
    assert len(image.issued) == 1


def test_a_mount_asks_for_both_repositories(client: RegistryClient, image: FakeRegistry) -> None:
    digest = image.add_blob(b"layer")
    assert client.mount(image.reference(), digest, image.reference("base/image:1")) is None
    assert image.issued == [("repository:team/image:pull,push", "repository:base/image:pull")]


def test_a_member_gets_a_token_with_name_and_password(make_client: MakeClient, image: FakeRegistry) -> None:
    image.auth = "members"
    with pytest.raises(RemoteRefusedError, match="refuses an anonymous visit"):
        make_client().manifest(image.reference())
    make_client(**as_user(image)).manifest(image.reference())


def test_an_identity_token_is_exchanged(make_client: MakeClient, image: FakeRegistry, tmp_path: Path) -> None:
    image.auth, image.identity_tokens = "members", {"refresh"}
    log_in(tmp_path, image, {"identitytoken": "refresh"})
    make_client().manifest(image.reference())
    assert image.issued == [("repository:team/image:pull",)]


def test_a_basic_challenge_gets_name_and_password(make_client: MakeClient, image: FakeRegistry) -> None:
    image.auth = "basic"
    with pytest.raises(RemoteRefusedError, match="none is configured"):
        make_client().manifest(image.reference())
    make_client(**as_user(image)).manifest(image.reference())


def test_bearer_is_preferred_where_both_are_offered(client: RegistryClient, image: FakeRegistry) -> None:
    both = f'Basic realm="x", {challenge(image)}'
    image.on("GET", "/manifests/1", Answer.error(401, "UNAUTHORIZED", WWW_Authenticate=both))
    client.manifest(image.reference())
    assert len(image.issued) == 1


@pytest.mark.parametrize(
    "asked", ["Negotiate", "", 'Bearer service="x"', 'Bearer realm="file:///etc/passwd"']
)
def test_a_challenge_that_cannot_be_answered_is_a_refusal(
    client: RegistryClient, image: FakeRegistry, asked: str
) -> None:
    image.on("GET", "/manifests/1", Answer.error(401, "UNAUTHORIZED", WWW_Authenticate=asked))
    with pytest.raises(RemoteRefusedError):
        client.manifest(image.reference())


def test_a_broken_token_server_is_an_outage_and_no_refusal(
    client: RegistryClient, image: FakeRegistry
) -> None:
    image.on("GET", "/token", *[Answer(500)] * 9)
    with pytest.raises(UnreachableError, match="status 500"):
        client.manifest(image.reference())
    image.script.clear()
    image.on("GET", "/token", Answer(200, b"<html>"))
    with pytest.raises(UnreachableError, match="gave no token"):
        client.manifest(image.reference())


def test_a_token_server_that_does_not_listen_is_an_outage(
    client: RegistryClient, image: FakeRegistry
) -> None:
    image.realm = "http://127.0.0.1:9/token"
    with pytest.raises(UnreachableError, match="refused"):
        client.manifest(image.reference())


def test_a_wrong_password_appears_in_no_message_and_no_traceback(
    make_client: MakeClient, image: FakeRegistry, progress: Silent
) -> None:
    image.auth = "members"
    client = make_client(**as_user(image, "ann", "hunter2"))
    with pytest.raises(RemoteRefusedError) as refused:
        client.manifest(image.reference())
    encoded = base64.b64encode(b"ann:hunter2").decode()
    shown = "".join(traceback.format_exception(refused.value)) + repr(vars(client)) + str(progress.warnings)
    assert "hunter2" not in shown
    assert encoded not in shown
    assert "docker login" in shown


def test_a_password_is_not_sent_to_a_token_server_over_plain_http() -> None:
    variables = {
        "FLBUILD_REGISTRY_QUAY_EXAMPLE_USERNAME": "ann",
        "FLBUILD_REGISTRY_QUAY_EXAMPLE_PASSWORD": "pw",
    }
    credentials = Credentials(load_settings(None, variables), Silent(), variables)

    def send(method: str, url: str, **arguments: object) -> None:
        raise AssertionError("nothing may be sent")

    authorizer = Authorizer("quay.example", credentials, send, plain=False)
    with pytest.raises(RemoteRefusedError, match="plain http"):
        authorizer.answer('Bearer realm="http://auth.quay.example/token"', ["repository:a:pull"])


def test_netrc_does_not_take_the_place_of_a_token(
    client: RegistryClient, image: FakeRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".netrc").write_text("default login someone password else\n")
    (tmp_path / ".netrc").chmod(0o600)
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    # Requests to loopback look at nothing of the user's; this one shall.
    client._transport(image.reference())._session.trust_env = True
    client.manifest(image.reference())
    assert all("Basic" not in headers.get("Authorization", "") for headers in image.headers)


def challenge(registry: FakeRegistry) -> str:
    return f'Bearer realm="http://{registry.host}/token",service="fake"'
