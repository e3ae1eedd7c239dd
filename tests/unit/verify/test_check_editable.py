from __future__ import annotations

import json

import pytest

SITE = "usr/local/lib/python3.11/dist-packages"


@pytest.mark.parametrize(
    ("path", "content", "what"),
    [
        (
            "numpy-1.26.4.dist-info/direct_url.json",
            json.dumps({"url": "file:///src/numpy", "dir_info": {"editable": True}}).encode(),
            "an editable install of file:///src/numpy",
        ),
        (
            "numpy-1.26.4.dist-info/direct_url.json",
            json.dumps({"url": "file:///tmp/wheels/numpy.whl", "archive_info": {}}).encode(),
            "it records a path of the machine that built the image",
        ),
        ("numpy-1.26.4.dist-info/direct_url.json", b"{", "it is not JSON"),
        ("numpy.egg-link", b"/src/numpy\n", "an egg-link points to a source tree"),
        ("easy-install.pth", b"/src/numpy\n", "an editable install's finder or path file"),
        ("__editable__.numpy-1.26.4.pth", b"/src\n", "an editable install's finder or path file"),
        ("__editable___numpy_finder.py", b"MAPPING = {}\n", "an editable install's finder or path file"),
        ("extra.pth", b"/src\n", "a path file that belongs to no distribution"),
    ],
)
def test_every_form_of_an_install_in_place_is_found(case, path, content, what):
    case.files[f"{SITE}/{path}"] = content
    assert case.errors("editable") == [f"/{SITE}/{path}: {what}"]


def test_a_path_file_of_a_distribution_is_fine(case):
    case.add("distutils-hack", "1.0", files={"hack.pth": b"import os\n"})
    assert case.errors("editable") == []


def test_a_wheel_installed_from_an_index_is_fine(case):
    path = f"{SITE}/numpy-1.26.4.dist-info/direct_url.json"
    case.files[path] = json.dumps({"url": "https://example.org/numpy.whl", "archive_info": {}}).encode()
    assert case.errors("editable") == []


def test_an_editable_install_of_the_base_has_to_go(case, carried):
    case.image_base = True
    case.inventory = (carried("vllm", editable=True),)
    (error,) = case.errors("editable")
    assert error.endswith("vllm of the base is an editable install, and is not removed")
    case.files[f"{SITE}/.wh.vllm-1.0.dist-info"] = b""
    assert case.errors("editable") == []
