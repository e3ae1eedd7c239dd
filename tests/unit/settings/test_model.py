from __future__ import annotations

from pathlib import Path

import pytest

from flbuild.errors import UsageError
from flbuild.settings.model import IndexSettings, is_loopback


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:5000", "127.0.0.1", "127.1.2.3:80", "[::1]:5000", "::1", "[::1]"]
)
def test_loopback_hosts(host):
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host", ["quay.io", "localhost.example", "10.0.0.1:5000", "[fe80::1]:5000", "128.0.0.1", ""]
)
def test_other_hosts(host):
    assert not is_loopback(host)


def test_an_unknown_index_is_a_usage_error_that_suggests(load):
    with pytest.raises(
        UsageError, match="unknown index 'pytorchcpu'; perhaps you meant 'pytorch-cpu'"
    ) as caught:
        load().index("pytorchcpu")
    assert "[index.pytorchcpu]" in caught.value.remedy


def test_flags_are_the_strongest(load, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = load(
        'find-links = ["/b"]\n[index.cann]\nurl = "https://x.example"\npassword = "secret"\n',
        FLBUILD_JOBS="3",
    )
    after = before.with_flags(
        index_urls={"cann": "https://me:pw@flag.example"}, find_links=("/a",), cache_dir=Path("/c"), jobs=9
    )
    assert after.index("cann").url == "https://flag.example"
    assert after.index("cann").password.get_secret_value() == "pw"
    assert (after.find_links, after.cache_dir, after.jobs) == (("/a", "/b"), Path("/c"), 9)
    assert before.index("cann").url == "https://x.example"
    assert before.with_flags() == before


def test_a_flag_for_an_unknown_index_is_an_error(load):
    with pytest.raises(UsageError, match="unknown index 'pypo'"):
        load().with_flags(index_urls={"pypo": "https://x.example"})


def test_redacting_hides_every_credential_of_the_settings(load):
    settings = load(
        '[index.pypi]\nusername = "user-name"\npassword = "pass-word"\n'
        '[registry."quay.io"]\npassword = "long-pass-word"\n',
        FLBUILD_REGISTRY_QUAY_IO_USERNAME="robot",
        FLBUILD_REGISTRY_QUAY_IO_MIRROR="mirror.example",
    )
    text = "user-name pass-word long-pass-word robot mirror.example https://a:b@x.example"
    assert settings.redact(text) == "*** *** *** *** mirror.example https://***@x.example"


def test_redacting_without_credentials_changes_nothing(load):
    assert load('[index.pypi]\npassword = ""\n').redact("plain text") == "plain text"


def test_an_at_sign_in_the_path_of_a_url_with_credentials_stays_there():
    index = IndexSettings().redirected("https://me:pw@x.example/@team/simple", Path("/project"))
    assert index.url == "https://x.example/@team/simple"
    assert index.password.get_secret_value() == "pw"
