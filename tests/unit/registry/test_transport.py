from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from flbuild.errors import UnreachableError
from flbuild.registry.client import RegistryClient
from flbuild.registry.reference import Reference

from .fake_registry import FakeRegistry

MakeClient = Callable[..., RegistryClient]


def test_a_proxy_of_the_settings_is_used_for_the_registry_and_its_token_server(
    make_client: MakeClient, registry: FakeRegistry, tmp_path: Path
) -> None:
    config = tmp_path / "flbuild.toml"
    config.write_text('[registry."registry.example"]\nplain-http = true\n')
    registry.add_manifest({"layers": []}, "1")
    registry.auth, registry.realm = "token", "http://auth.example/token"
    client = make_client(FLBUILD_CONFIG=str(config), FLBUILD_PROXY=f"http://{registry.host}")
    client.manifest(Reference.parse("registry.example/a/b:1"))
    assert [path.partition("?")[0] for _, path in registry.requests] == [
        "http://registry.example/v2/a/b/manifests/1",
        "http://auth.example/token",
        "http://registry.example/v2/a/b/manifests/1",
    ]


def test_loopback_is_never_asked_through_a_proxy(
    make_client: MakeClient, registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    registry.add_manifest({"layers": []}, "1")
    make_client(FLBUILD_PROXY="http://127.0.0.1:9").manifest(registry.reference())


@pytest.mark.parametrize("setting", ["FLBUILD_CA_BUNDLE", "SSL_CERT_FILE"])
def test_a_missing_file_of_certificates_is_named(make_client: MakeClient, setting: str) -> None:
    client = make_client(**{setting: "/absent/ca.pem"})
    with pytest.raises(UnreachableError, match=r"/absent/ca\.pem"):
        client.manifest(Reference.parse("registry.example/a/b:1"))


def test_a_registry_may_have_certificates_of_its_own(make_client: MakeClient, tmp_path: Path) -> None:
    config = tmp_path / "flbuild.toml"
    config.write_text('[registry."registry.example"]\nca-bundle = "lan.pem"\n')
    client = make_client(FLBUILD_CONFIG=str(config), FLBUILD_CA_BUNDLE="/etc/ssl/other.pem")
    with pytest.raises(UnreachableError, match=r"lan\.pem"):
        client.manifest(Reference.parse("registry.example/a/b:1"))


def test_a_redirect_to_the_same_host_by_another_scheme_does_not_carry_the_credential(
    make_client: MakeClient, registry: FakeRegistry
) -> None:
    name = f"FLBUILD_REGISTRY_127_0_0_1_{registry.port}"
    registry.add_manifest({"layers": []}, "1")
    registry.auth, registry.users = "basic", {"ann": "pw"}
    client = make_client(**{f"{name}_USERNAME": "ann", f"{name}_PASSWORD": "pw"})
    client.manifest(registry.reference())
    with pytest.raises(UnreachableError):
        client.ask(registry.reference(), "GET", f"https://{registry.host}/v2/team/image/manifests/1")
    client.ask(registry.reference(), "GET", f"http://LOCALHOST:{registry.port}/token")
    assert "Authorization" in registry.headers[1]
    assert "Authorization" not in registry.headers[-1]
