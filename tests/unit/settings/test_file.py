from __future__ import annotations

import pytest

from flbuild.errors import UsageError


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("jbos = 2\n", 1, "unknown key 'jbos'; perhaps you meant 'jobs'"),
        ("# x\n\nfind_links = []\n", 3, "unknown key 'find_links'; perhaps you meant 'find-links'"),
        ('jobs = 2\n[index.pypi]\nulr = "x"\n', 3, "unknown key 'index.pypi.ulr'; perhaps you meant 'url'"),
        (
            '[registry."quay.io"]\n\nmirrror = "x"\n',
            3,
            "unknown key 'registry.quay.io.mirrror'; perhaps you meant 'mirror'",
        ),
        ('index.pypi.ulr = "x"\n', 1, "perhaps you meant 'url'"),
        ('[indx.pypi]\nurl = "x"\n', 1, "unknown key 'indx'; perhaps you meant 'index'"),
        ("jobs = 0\n", 1, "'jobs': input should be greater than 0"),
        ('jobs = "x"\n', 1, "'jobs'"),
        ("find-links = [1]\n", 1, "'find-links.0'"),
        ('[index]\npypi = "https://x.example"\n', 2, "'index.pypi'"),
    ],
)
def test_a_mistake_names_file_line_and_key(load, root, text, line, words):
    with pytest.raises(UsageError) as caught:
        load(text)
    assert caught.value.what.startswith(f"{root / 'flbuild.toml'}:{line}: ")
    assert words in caught.value.what
    assert caught.value.exit_code == 2


def test_broken_toml_names_the_file_and_the_line(load, root):
    with pytest.raises(UsageError, match="not valid TOML") as caught:
        load("jobs = 2\nindex = x\n")
    assert str(root / "flbuild.toml") in caught.value.what
    assert "line 2" in caught.value.cause


def test_no_error_repeats_a_credential(load):
    with pytest.raises(UsageError) as caught:
        load('[index.pypi]\npassword = ["hidden"]\nurl = 5\nproxy = "http://u:hidden@x"\n')
    assert "hidden" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_a_file_that_is_not_text_is_an_error(load, root, monkeypatch):
    load()
    (root / "flbuild.toml").write_bytes(b"\xff\xfe")
    from flbuild.settings import load_settings

    with pytest.raises(UsageError, match="cannot be read"):
        load_settings(root, {})
