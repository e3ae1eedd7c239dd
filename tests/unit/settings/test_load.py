from __future__ import annotations

from pathlib import Path

import pytest
from pypi_simple import PYPI_SIMPLE_ENDPOINT

from flbuild.errors import UsageError
from flbuild.settings import load_settings

MIRROR = "https://mirror.example/simple"


def secret(value):
    return None if value is None else value.get_secret_value()


def test_built_in_indexes_need_no_configuration(load):
    settings = load()
    assert settings.index("pypi").url == PYPI_SIMPLE_ENDPOINT
    assert {"pytorch-cpu", "pytorch-cu129", "flagos", "cann"} < set(settings.indexes)
    assert all(index.url.startswith("https://") for index in settings.indexes.values())


def test_one_setting_redirects_an_index(load):
    assert load(f'[index.pypi]\nurl = "{MIRROR}"\n').index("pypi").url == MIRROR
    assert load(FLBUILD_INDEX_PYTORCH_CPU_URL=MIRROR).index("pytorch-cpu").url == MIRROR


def test_the_environment_wins_over_the_project_which_wins_over_the_user(load, root, tmp_path):
    user = tmp_path / "config" / "flbuild" / "flbuild.toml"
    user.parent.mkdir(parents=True)
    user.write_text(
        'jobs = 3\n[index.cann]\nurl = "https://user.example"\n[index.flagos]\nurl = "https://user.example"\n'
    )
    settings = load(
        '[index.cann]\nurl = "https://project.example"\n[index.pypi]\nurl = "https://project.example"\n',
        FLBUILD_INDEX_PYPI_URL="https://variable.example",
    )
    assert settings.index("flagos").url == "https://user.example"
    assert settings.index("cann").url == "https://project.example"
    assert settings.index("pypi").url == "https://variable.example"
    assert settings.jobs == 3


def test_pips_index_is_used_where_nothing_of_ours_redirects(load):
    assert load(PIP_INDEX_URL=MIRROR).index("pypi").url == MIRROR
    ours = load('[index.pypi]\nurl = "https://ours.example"\n', PIP_INDEX_URL=MIRROR)
    assert ours.index("pypi").url == "https://ours.example"


def test_an_index_of_ones_own_is_declared_and_then_redirected(load):
    settings = load('[index.team]\nurl = "https://team.example"\n', FLBUILD_INDEX_TEAM_URL=MIRROR)
    assert settings.index("team").url == MIRROR


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ('[index.pypii]\nusername = "me"\n', "perhaps you meant 'pypi'"),
        ('[index.PyPI]\nurl = "https://x.example"\n', "perhaps you meant 'pypi'"),
        ('[index.pytorch_cpu]\nurl = "https://x.example"\n', "perhaps you meant 'pytorch-cpu'"),
    ],
)
def test_a_misspelled_index_is_not_taken_for_a_new_one(load, root, table, words):
    with pytest.raises(UsageError) as caught:
        load(table)
    assert caught.value.what.startswith(f"{root / 'flbuild.toml'}: [index.")
    assert words in caught.value.what


def test_an_index_may_be_a_local_folder_relative_to_the_file(load, root):
    assert load('[index.pypi]\nurl = "wheels"\n').index("pypi").url == str(root / "wheels")
    assert load(f'[index.pypi]\nurl = "file://{root}/a%20b"\n').index("pypi").url == str(root / "a b")


def test_credentials_in_a_url_are_taken_out_of_it(load):
    index = load(FLBUILD_INDEX_CANN_URL="https://me:p%40ss@cann.example:8443/simple").index("cann")
    assert index.url == "https://cann.example:8443/simple"
    assert (secret(index.username), secret(index.password)) == ("me", "p@ss")


def test_credentials_come_from_variables(load):
    index = load(
        '[index.cann]\nurl = "https://cann.example"\nusername = "file"\n',
        FLBUILD_INDEX_CANN_USERNAME="me",
        FLBUILD_INDEX_CANN_PASSWORD="secret",
    ).index("cann")
    assert index.url == "https://cann.example"
    assert (secret(index.username), secret(index.password)) == ("me", "secret")


def test_credentials_do_not_follow_an_index_to_another_place(load):
    text = '[index.cann]\nurl = "https://cann.example"\nusername = "me"\npassword = "secret"\n'
    index = load(text, FLBUILD_INDEX_CANN_URL=MIRROR).index("cann")
    assert (index.username, index.password) == (None, None)


def test_find_links_of_all_sources_are_searched_the_strongest_first(load, root, tmp_path):
    settings = load(
        'find-links = ["wheels", "https://links.example/"]\n',
        FLBUILD_FIND_LINKS="/first",
        PIP_FIND_LINKS=f"/last /first file://{tmp_path}/more",
    )
    expected = ("/first", str(root / "wheels"), "https://links.example/", "/last", f"{tmp_path}/more")
    assert settings.find_links == expected


def test_the_cache_is_the_users_unless_set(load, root, tmp_path, monkeypatch):
    assert load().cache_dir == tmp_path / "cache" / "flbuild"
    assert load('cache-dir = "cache"\n').cache_dir == root / "cache"
    monkeypatch.chdir(tmp_path)
    assert load('cache-dir = "cache"\n', FLBUILD_CACHE_DIR="here").cache_dir == tmp_path / "here"


@pytest.mark.parametrize("name", ["FLBUILD_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"])
def test_the_systems_ca_bundle_is_honoured(load, name):
    assert load('ca-bundle = "ca.pem"\n', **{name: "/etc/ca.pem"}).ca_bundle == Path("/etc/ca.pem")


def test_without_any_ca_bundle_the_libraries_own_is_used(load):
    assert load().ca_bundle is None


def test_a_registry_of_the_user_is_completed_by_the_project(load, tmp_path):
    user = tmp_path / "config" / "flbuild" / "flbuild.toml"
    user.parent.mkdir(parents=True)
    user.write_text('[registry."quay.io"]\nusername = "me"\n')
    registry = load('[registry."quay.io"]\nca-bundle = "ca.pem"\n').registry("quay.io")
    assert (secret(registry.username), registry.ca_bundle.name) == ("me", "ca.pem")


def test_a_users_credentials_do_not_go_where_a_project_redirects_to(load, tmp_path):
    user = tmp_path / "config" / "flbuild" / "flbuild.toml"
    user.parent.mkdir(parents=True)
    user.write_text(
        '[registry."quay.io"]\nusername = "me"\npassword = "secret"\n'
        f'[index.cann]\nurl = "{MIRROR}"\nusername = "me"\npassword = "secret"\n'
    )
    project = '[registry."quay.io"]\nmirror = "m.example"\n[index.cann]\nurl = "https://m.example/simple"\n'
    settings = load(project)
    for place in (settings.registry("quay.io"), settings.index("cann")):
        assert (place.username, place.password) == (None, None)


def test_our_own_ca_bundle_wins_over_the_systems(load, root):
    assert load(FLBUILD_CA_BUNDLE="/a", SSL_CERT_FILE="/b").ca_bundle == Path("/a")
    assert load('ca-bundle = "ca.pem"\n').ca_bundle == root / "ca.pem"


def test_a_proxy_is_a_secret(load):
    settings = load('proxy = "http://u:hidden@proxy.example"\n')
    assert secret(settings.proxy) == "http://u:hidden@proxy.example"
    assert "hidden" not in repr(settings)
    assert secret(load(FLBUILD_PROXY="http://other.example").proxy) == "http://other.example"


def test_jobs_can_be_set(load):
    assert load("jobs = 5\n").jobs == 5
    assert load("jobs = 5\n", FLBUILD_JOBS="7").jobs == 7
    assert 2 <= load().jobs <= 8


def test_without_a_project_only_the_user_file_counts(root, tmp_path):
    assert load_settings(None, {}).index("pypi").url == PYPI_SIMPLE_ENDPOINT


def test_the_user_file_can_be_named(load, tmp_path):
    named = tmp_path / "named.toml"
    named.write_text(f'[index.cann]\nurl = "{MIRROR}"\n')
    assert load(FLBUILD_CONFIG=str(named)).index("cann").url == MIRROR
    with pytest.raises(UsageError, match="FLBUILD_CONFIG"):
        load(FLBUILD_CONFIG=str(tmp_path / "absent.toml"))


def test_one_setting_redirects_a_registry(load):
    text = '[registry."quay.io"]\nmirror = "mirror.example:5000/quay"\nusername = "me"\npassword = "secret"\n'
    registry = load(text).registry("quay.io")
    assert registry.mirror == "mirror.example:5000/quay"
    assert (secret(registry.username), secret(registry.password)) == ("me", "secret")
    variable = load(text, FLBUILD_REGISTRY_QUAY_IO_MIRROR="other.example").registry("quay.io")
    assert variable.mirror == "other.example"
    assert (variable.username, variable.password) == (None, None)
    variables = {"MIRROR": "other.example", "USERNAME": "you", "PASSWORD": "hidden"}
    variable = load(text, **{f"FLBUILD_REGISTRY_QUAY_IO_{k}": v for k, v in variables.items()})
    assert secret(variable.registry("quay.io").username) == "you"


def test_a_registrys_host_has_no_case(load):
    assert load('[registry."Quay.IO"]\nmirror = "m.example"\n').registry("quay.io").mirror == "m.example"


def test_a_registry_on_loopback_speaks_plain_http_unless_told(load):
    assert load().registry("127.0.0.1:5000").plain_http is True
    assert load().registry("quay.io").plain_http is False
    assert (
        load('[registry."localhost:5000"]\nplain-http = false\n').registry("localhost:5000").plain_http
        is False
    )
    assert (
        load('[registry."reg.lan"]\nplain-http = true\nca-bundle = "ca.pem"\n').registry("reg.lan").plain_http
        is True
    )
    assert load('[registry."localhost"]\nmirror = "x.example"\n').registry("localhost").plain_http is True


def test_a_registrys_ca_bundle_is_relative_to_the_file(load, root):
    assert (
        load('[registry."reg.lan"]\nca-bundle = "ca.pem"\n').registry("reg.lan").ca_bundle == root / "ca.pem"
    )


def test_no_secret_shows_in_the_settings(load):
    settings = load(
        '[index.pypi]\nurl = "https://me:filesecret@x.example"\n'
        '[registry."quay.io"]\npassword = "regsecret"\n',
        FLBUILD_INDEX_CANN_PASSWORD="indexsecret",
        FLBUILD_REGISTRY_QUAY_IO_PASSWORD="varsecret",
    )
    shown = f"{settings!r} {settings} {settings.model_dump_json()} {settings.registry('quay.io')!r}"
    assert not [word for word in ("filesecret", "regsecret", "indexsecret", "varsecret") if word in shown]


def test_a_home_folder_that_nobody_knows_is_named(load):
    with pytest.raises(UsageError, match=r"~nosuchuser/cache.*\n.*~nosuchuser is no user"):
        load(FLBUILD_CACHE_DIR="~nosuchuser/cache")
    with pytest.raises(UsageError, match="~nosuchuser/wheels"):
        load('find-links = ["~nosuchuser/wheels"]\n')


def test_a_user_without_a_home_says_where_the_cache_is(load, monkeypatch):
    monkeypatch.setattr("flbuild.settings.load.user_cache_path", lambda name: Path("~/.cache") / name)
    with pytest.raises(UsageError, match="no home folder") as caught:
        load()
    assert "FLBUILD_CACHE_DIR" in str(caught.value)
    assert load(FLBUILD_CACHE_DIR="/srv/cache").cache_dir == Path("/srv/cache")
