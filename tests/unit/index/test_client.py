from __future__ import annotations

import pytest
from pydantic import SecretStr

from flbuild.errors import HostError, RemoteGoneError, RemoteRefusedError, UnreachableError, UsageError
from flbuild.index.client import IndexClient
from flbuild.progress import Silent
from flbuild.settings import IndexSettings


def client_for(settings, **options):
    return IndexClient(settings, Silent(), wait=0, **options)


@pytest.mark.parametrize("html", [False, True])
def test_a_page_in_either_form_gives_names_versions_and_hashes(
    tmp_path, fake_index, make_wheel, make_settings, html
):
    fake_index.html = html
    served = fake_index.add(make_wheel(tmp_path, "Some.Thing", "1.0+local"))
    served.project = "some-thing"
    (file,) = client_for(make_settings(pypi=fake_index.url())).files("pypi", "Some_Thing")
    assert (file.name, file.version, file.filename) == ("some-thing", "1.0+local", served.filename)
    assert file.sha256 == served.listed
    assert file.kind == "wheel"


def test_a_project_is_asked_for_once(tmp_path, fake_index, make_wheel, make_settings):
    fake_index.add(make_wheel(tmp_path, "one", "1"))
    client = client_for(make_settings(pypi=fake_index.url()))
    assert client.files("pypi", "one") == client.files("pypi", "One")
    assert len(fake_index.requests) == 1


def test_a_passing_failure_of_the_server_is_retried(tmp_path, fake_index, make_wheel, make_settings):
    fake_index.add(make_wheel(tmp_path, "one", "1"))
    fake_index.answers["/one/"] = [503, 429]
    assert client_for(make_settings(pypi=fake_index.url())).files("pypi", "one")
    assert len(fake_index.requests) == 3


def test_an_absent_project_is_gone_and_names_index_and_setting(fake_index, make_settings):
    with pytest.raises(RemoteGoneError, match=r"(?s)'flagos'.*flagtree.*FLBUILD_INDEX_FLAGOS_URL"):
        client_for(make_settings(flagos=fake_index.url())).files("flagos", "flagtree")


def test_an_index_that_does_not_answer_names_index_package_and_setting(make_settings):
    client = client_for(make_settings(pytorch_cpu="http://127.0.0.1:9/simple"))
    with pytest.raises(UnreachableError, match=r"(?s)'pytorch-cpu'.*torch.*FLBUILD_INDEX_PYTORCH_CPU_URL"):
        client.files("pytorch-cpu", "torch")


def test_a_failing_server_counts_as_unreachable(fake_index, make_settings):
    fake_index.answers["/one/"] = [500] * 9
    with pytest.raises(UnreachableError, match="status 500"):
        client_for(make_settings(pypi=fake_index.url())).files("pypi", "one")


def test_too_many_requests_asks_for_patience(fake_index, make_settings):
    fake_index.answers["/one/"] = [429] * 9
    with pytest.raises(RemoteRefusedError, match="patience"):
        client_for(make_settings(pypi=fake_index.url())).files("pypi", "one")


def test_an_index_that_wants_credentials_says_which_variables_to_set(fake_index, make_settings):
    fake_index.password = "needed"
    with pytest.raises(RemoteRefusedError, match=r"FLBUILD_INDEX_PYPI_USERNAME.*FLBUILD_INDEX_PYPI_PASSWORD"):
        client_for(make_settings(pypi=fake_index.url())).files("pypi", "one")


def test_credentials_go_to_the_index_and_to_no_other_host(tmp_path, fake_index, make_wheel, make_settings):
    fake_index.password = "needed"
    fake_index.add(make_wheel(tmp_path, "one", "1"))
    index = IndexSettings(url=fake_index.url(), username=SecretStr("me"), password=SecretStr("pass"))
    client = client_for(make_settings(pypi=index))
    assert client.files("pypi", "one")
    assert client.auth("pypi", fake_index.url() + "x") == ("me", "pass")
    assert client.auth("pypi", "http://127.0.0.2/x") is None
    assert client.auth("pypi", fake_index.url().replace("http:", "https:")) is None


def test_credentials_are_in_no_message(make_settings):
    index = IndexSettings(url="http://me:hush@127.0.0.1:9/simple")
    with pytest.raises(UnreachableError) as caught:
        client_for(make_settings(pypi=index)).files("pypi", "one")
    assert "hush" not in str(caught.value)


def test_a_page_that_is_no_index_page_is_said_to_be_none(fake_index, make_settings, monkeypatch):
    monkeypatch.setattr(type(fake_index), "page", lambda *_: (b"{}", "application/pdf"))
    with pytest.raises(UnreachableError, match="no index page"):
        client_for(make_settings(pypi=fake_index.url())).files("pypi", "one")


def test_a_local_folder_of_wheels_is_an_index(tmp_path, make_wheel, make_settings):
    path = make_wheel(tmp_path / "wheels", "flag-tree", "1.0")
    make_wheel(tmp_path / "wheels", "flag-tree-extra", "1.0")
    (tmp_path / "wheels" / "notes.txt").write_text("x")
    (file,) = client_for(make_settings(flagos=tmp_path / "wheels")).files("flagos", "flag_tree")
    assert file.path == path
    assert file.size == path.stat().st_size


@pytest.mark.parametrize("page", [False, True])
def test_a_local_simple_tree_is_an_index(tmp_path, make_wheel, make_settings, page):
    path = make_wheel(tmp_path / "tree" / "thing", "thing", "1.0+cpu")
    if page:
        name = path.name.replace("+", "%2B")
        path.with_name("index.html").write_text(f'<a href="{name}#sha256={"a" * 64}">{path.name}</a>')
    (file,) = client_for(make_settings(pypi=tmp_path / "tree")).files("pypi", "thing")
    assert file.path == path
    assert file.sha256 == ("a" * 64 if page else None)


def test_a_local_index_that_is_no_folder_says_so(tmp_path, make_settings):
    with pytest.raises(UnreachableError, match="not a folder"):
        client_for(make_settings(pypi=tmp_path / "absent")).files("pypi", "thing")


def test_a_local_index_without_the_project_says_so(tmp_path, make_settings):
    with pytest.raises(RemoteGoneError, match="no project thing"):
        client_for(make_settings(pypi=tmp_path)).files("pypi", "thing")


def test_offline_gives_what_was_seen_before_and_asks_nothing(tmp_path, fake_index, make_wheel, make_settings):
    fake_index.add(make_wheel(tmp_path, "one", "1"))
    settings = make_settings(pypi=fake_index.url())
    seen = client_for(settings).files("pypi", "one")
    fake_index.requests.clear()
    assert client_for(settings, offline=True).files("pypi", "one") == seen
    with pytest.raises(HostError, match=r"two.*--offline"):
        client_for(settings, offline=True).files("pypi", "two")
    assert not fake_index.requests


def test_an_index_without_a_url_says_how_to_set_one(make_settings):
    with pytest.raises(UsageError, match="FLBUILD_INDEX_CANN_URL"):
        client_for(make_settings(cann=IndexSettings())).files("cann", "shmem")


def test_find_links_gives_folder_files_of_that_project_only(tmp_path, make_wheel, make_settings):
    make_wheel(tmp_path / "links", "one", "1")
    make_wheel(tmp_path / "links", "two", "2")
    client = client_for(make_settings(find_links=[tmp_path / "links", tmp_path / "absent"]))
    assert [file.version for file in client.find_links("two")] == ["2"]


def test_a_find_links_page_that_refuses_is_named_without_its_credentials(fake_index, make_settings):
    fake_index.answers["links"] = [401] * 9
    page = f"http://jane:s3cret@127.0.0.1:{fake_index.port}/links"
    client = client_for(make_settings(find_links=[page]))
    assert client.find_links("one") == ()
    (warning,) = client.progress.warnings
    assert "/links" in warning
    assert "s3cret" not in warning
    assert "jane" not in warning
