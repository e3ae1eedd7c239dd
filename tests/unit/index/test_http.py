from __future__ import annotations

import pytest
import urllib3
from pydantic import SecretStr

from flbuild.index.http import Http, PatientRetry, retries


def test_a_server_that_asks_for_an_hour_gets_half_a_minute():
    answer = urllib3.HTTPResponse(status=429, headers={"Retry-After": "3600"})
    assert retries(0).get_retry_after(answer) == PatientRetry.LONGEST
    answer = urllib3.HTTPResponse(status=429, headers={"Retry-After": "2"})
    assert retries(0).get_retry_after(answer) == 2


def test_the_proxy_of_the_settings_is_used_and_not_that_of_the_environment(
    fake_index, make_settings, monkeypatch
):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    proxy = SecretStr(f"http://127.0.0.1:{fake_index.port}")
    settings = make_settings().model_copy(update={"proxy": proxy})
    assert Http(settings, wait=0).get("http://index.invalid/simple/x/").status_code == 404
    assert fake_index.requests == ["http://index.invalid/simple/x/"]


def test_the_certificates_of_the_settings_win_over_those_of_the_environment(
    tmp_path, make_settings, monkeypatch
):
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/etc/hostname")
    settings = make_settings().model_copy(update={"ca_bundle": tmp_path / "absent.pem"})
    with pytest.raises(OSError, match=r"absent\.pem"):
        Http(settings, wait=0).get("https://127.0.0.1:9/")
