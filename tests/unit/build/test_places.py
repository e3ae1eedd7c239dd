from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr

from flbuild.build.places import base_place
from flbuild.lock.model import DebianPackage, LockedDebianBase, LockedLayer
from flbuild.registry.credentials import Credential
from flbuild.settings.model import RegistrySettings


class Logins:
    def __init__(self, found=None):
        self.found = found

    def find(self, host):
        assert host == "quay.io"
        return self.found


@pytest.fixture
def place(make_settings, based_plan):
    def make(found=None, **changes):
        registries = {"quay.io": RegistrySettings(**changes)} if changes else {}
        settings = make_settings().model_copy(update={"registries": registries})
        return base_place(based_plan(), settings, Logins(found))

    return make


def test_a_base_is_where_the_recipe_says(place):
    found = place()
    assert (found.image, found.digest) == ("quay.io/team/base:v1", "sha256:" + "c" * 64)
    assert (found.host, found.plain_http, found.ca_bundle, found.credential) == ("quay.io", False, None, None)


def test_a_mirror_is_asked_instead_for_the_same_digest(place):
    found = place(mirror="127.0.0.1:5000/quay", ca_bundle=Path("/lan.pem"))
    assert found.image == "127.0.0.1:5000/quay/team/base:v1"
    assert found.digest == "sha256:" + "c" * 64
    assert (found.host, found.plain_http, found.ca_bundle) == ("127.0.0.1:5000", True, Path("/lan.pem"))


def test_the_credential_of_the_registry_goes_along(place):
    login = Credential("carol", SecretStr("open sesame"))
    assert place(login).credential == login


def test_a_debian_base_has_no_place(make_settings, based_plan):
    from dataclasses import replace

    digest = "sha256:" + "d" * 64
    layer = LockedLayer(digest=digest, size=1, media_type="application/x", diff_id=digest)
    libc = DebianPackage(name="libc6", version="2.36", architecture="amd64")
    base = LockedDebianBase(suite="bookworm", epoch=0, layer=layer, packages=(libc,))
    assert base_place(replace(based_plan(), base=base), make_settings(), Logins()) is None
