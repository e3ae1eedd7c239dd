from __future__ import annotations

import os
from pathlib import Path

import pytest

from flbuild.settings.pip import pip_option


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home folder for pip's files; the machine's own are out of sight."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr("flbuild.settings.pip.site_config_path", lambda _name: tmp_path / "site")
    monkeypatch.setattr("flbuild.settings.pip.SYSTEM_FILE", tmp_path / "etc" / "pip.conf")
    monkeypatch.setattr("flbuild.settings.pip.sys.prefix", str(tmp_path / "venv"))
    return tmp_path


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_the_variable_is_the_strongest(home):
    write(home / "config" / "pip" / "pip.conf", "[global]\nindex-url = https://file.example\n")
    assert (
        pip_option("index-url", {"PIP_INDEX_URL": "https://variable.example"}) == "https://variable.example"
    )
    assert pip_option("index-url", {}) == "https://file.example"


def test_files_are_ordered_as_pip_orders_them(home):
    places = [
        home / "site" / "pip.conf",
        home / "etc" / "pip.conf",
        home / ".pip" / "pip.conf",
        home / "config" / "pip" / "pip.conf",
        home / "venv" / "pip.conf",
    ]
    for number, place in enumerate(places):
        write(place, f"[global]\nindex-url = https://{number}.example\n")
        assert pip_option("index-url", {}) == f"https://{number}.example"
    named = write(home / "named.conf", "[install]\nindex-url = https://named.example\n")
    assert pip_option("index-url", {"PIP_CONFIG_FILE": str(named)}) == "https://named.example"


def test_the_section_of_the_command_wins(home):
    write(home / ".pip" / "pip.conf", "[install]\nfind-links = /a\n  /b\n[global]\nfind-links = /c\n")
    assert pip_option("find-links", {}).split() == ["/a", "/b"]


def test_pips_files_can_be_switched_off(home):
    write(home / ".pip" / "pip.conf", "[global]\nindex-url = https://file.example\n")
    assert pip_option("index-url", {"PIP_CONFIG_FILE": os.devnull}) == ""


@pytest.mark.parametrize("content", [b"index-url = x\n", b"[global\n", b"\xff\xfe"])
def test_a_broken_file_is_left_to_pip(home, content):
    write(home / ".pip" / "pip.conf", "").write_bytes(content)
    assert pip_option("index-url", {}) == ""


def test_a_percent_sign_is_no_interpolation(home):
    write(home / ".pip" / "pip.conf", "[global]\nindex-url = https://u:p%40s@x.example\n")
    assert pip_option("index-url", {}) == "https://u:p%40s@x.example"


def test_settings_fall_back_to_pips_configuration(home, load):
    named = write(
        home / "named.conf",
        "[global]\nindex-url = https://pip.example/simple\nfind-links = /links\ncert = /etc/pip-ca.pem\n",
    )
    settings = load(PIP_CONFIG_FILE=str(named))
    assert settings.index("pypi").url == "https://pip.example/simple"
    assert settings.find_links == ("/links",)
    assert settings.ca_bundle == Path("/etc/pip-ca.pem")
    ours = load(
        'ca-bundle = "/ours.pem"\n[index.pypi]\nurl = "https://ours.example"\n', PIP_CONFIG_FILE=str(named)
    )
    assert ours.index("pypi").url == "https://ours.example"
    assert ours.ca_bundle == Path("/ours.pem")
    assert load(PIP_CONFIG_FILE=str(named), SSL_CERT_FILE="/system.pem").ca_bundle == Path("/system.pem")
