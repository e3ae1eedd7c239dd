from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from flbuild.base.inventory import Inventory, read_tar

SITE = "usr/local/lib/python3.11/site-packages"
Take = Callable[..., Inventory]


def metadata(name: str, version: str) -> str:
    return f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nRequires-Dist: x\n\nDescription"


def wheel(name: str, version: str, *files: str, site: str = SITE, **extra: str) -> dict[str, str]:
    """An installed wheel; files are relative to site-packages; extra goes into its dist-info."""
    info = f"{name}-{version}.dist-info"
    names = [*files, f"{info}/METADATA", f"{info}/RECORD", *(f"{info}/{key}" for key in extra)]
    layer = {f"{site}/{path}": "" for path in files}
    layer[f"{site}/{info}/METADATA"] = metadata(name, version)
    layer[f"{site}/{info}/RECORD"] = "".join(f'"{path}",sha256=x,1\n' for path in names)
    layer |= {f"{site}/{info}/{key}": value for key, value in extra.items()}
    return {path.replace(f"{site}/../../../", "usr/local/"): content for path, content in layer.items()}


def direct_url(path: str) -> str:
    return json.dumps({"url": f"file://{path}", "dir_info": {"editable": True}})


def found(inventory: Inventory) -> dict[str, tuple[str, bool, tuple[str, ...]]]:
    return {item.name: (item.version, item.editable, item.files) for item in inventory.distributions()}


def test_a_wheel_goes_as_whole_folders_with_its_scripts_and_byte_code(take: Take) -> None:
    layer = wheel("Foo.Bar", "1.0", "foo/__init__.py", "foo/sub/x.py", "one.py", "../../../bin/foo")
    layer |= {
        f"{SITE}/foo/__pycache__/__init__.cpython-311.pyc": "",
        f"{SITE}/__pycache__/one.cpython-311.pyc": "",
    }
    layer |= {f"{SITE}/__pycache__/only.cpython-311.pyc": "", f"{SITE}/only.py": "", "usr/local/bin/foo": ""}
    assert found(take(layer)) == {
        "foo-bar": (
            "1.0",
            False,
            (
                "/usr/local/bin/foo",
                f"/{SITE}/Foo.Bar-1.0.dist-info",
                f"/{SITE}/__pycache__/one.cpython-311.pyc",
                f"/{SITE}/foo",
                f"/{SITE}/one.py",
            ),
        )
    }


def test_a_folder_that_holds_another_file_stays(take: Take) -> None:
    layer = {**wheel("a", "1", "shared/a.py"), f"{SITE}/shared/b.py": ""}
    assert f"/{SITE}/shared/a.py" in found(take(layer))["a"][2]


def test_a_folder_outside_of_packages_stays_even_if_all_in_it_goes(take: Take) -> None:
    layer = wheel("a", "1", "../../../bin/a", "a.py")
    _, _, files = found(take(layer))["a"]
    assert files == ("/usr/local/bin/a", f"/{SITE}/a-1.dist-info", f"/{SITE}/a.py")


def test_site_packages_itself_never_goes(take: Take) -> None:
    _, _, files = found(take(wheel("a", "1", "a/x.py")))["a"]
    assert files == (f"/{SITE}/a", f"/{SITE}/a-1.dist-info")


def test_files_that_are_not_there_are_not_taken_out(take: Take) -> None:
    layer = wheel("a", "1", "a/x.py", "gone.py")
    del layer[f"{SITE}/gone.py"]
    assert found(take(layer))["a"][2] == (f"/{SITE}/a", f"/{SITE}/a-1.dist-info")


def test_what_an_upper_layer_removed_or_replaced_is_not_there(take: Take) -> None:
    old, new = wheel("a", "1", "a/x.py"), wheel("a", "2", "a/y.py")
    removed = {f"{SITE}/.wh.a-1.dist-info": "", f"{SITE}/a/.wh.x.py": ""}
    assert found(take(old, {**removed, **new})) == {
        "a": ("2", False, (f"/{SITE}/a", f"/{SITE}/a-2.dist-info"))
    }
    assert found(take(old, {f"{SITE}/.wh..wh..opq": ""})) == {}


def test_a_copy_inside_of_another_distribution_is_not_installed(take: Take) -> None:
    vendored = wheel("wheel", "0.45", "wheel/x.py", site=f"{SITE}/setuptools/_vendor")
    assert set(found(take({**wheel("setuptools", "80", "setuptools/x.py"), **vendored}))) == {"setuptools"}


def test_each_interpreter_has_its_own_distributions(take: Take) -> None:
    conda = "opt/conda/lib/python3.10/site-packages"
    inventory = take(wheel("a", "1", "a.py"), wheel("a", "2", "a.py", site=conda))
    assert [(item.version, item.location) for item in inventory.distributions()] == [
        ("2", f"/{conda}/a-2.dist-info"),
        ("1", f"/{SITE}/a-1.dist-info"),
    ]


def test_debians_egg_info_folders_and_files_are_found(take: Take) -> None:
    place = "usr/lib/python3/dist-packages"
    layer = {
        f"{place}/six-1.16.0.egg-info/PKG-INFO": metadata("six", "1.16.0"),
        f"{place}/six-1.16.0.egg-info/top_level.txt": "six\n",
        f"{place}/six.py": "",
        f"{place}/apt/x.py": "",
        f"{place}/python_apt-2.6.0.egg-info": metadata("python-apt", "2.6.0"),
        f"{place}/python_apt/x.py": "",
    }
    assert found(take(layer)) == {
        "six": ("1.16.0", False, (f"/{place}/six-1.16.0.egg-info", f"/{place}/six.py")),
        "python-apt": ("2.6.0", False, (f"/{place}/python_apt", f"/{place}/python_apt-2.6.0.egg-info")),
    }


def test_installed_files_of_an_old_install_are_taken_as_listed(take: Take) -> None:
    info = f"{SITE}/old-1.egg-info"
    listed = "../old/a.py\n../../../../bin/old\nPKG-INFO\n"
    layer = {f"{info}/PKG-INFO": metadata("old", "1"), f"{info}/installed-files.txt": listed}
    layer |= {f"{SITE}/old/a.py": "", f"{SITE}/old/kept.py": "", "usr/local/bin/old": ""}
    assert found(take(layer))["old"][2] == ("/usr/local/bin/old", f"/{info}", f"/{SITE}/old/a.py")


def test_an_egg_is_a_folder_of_its_own(take: Take) -> None:
    egg = f"{SITE}/old-1-py3.11.egg"
    layer = {f"{egg}/EGG-INFO/PKG-INFO": metadata("old", "1"), f"{egg}/old/x.py": ""}
    assert found(take(layer)) == {"old": ("1", False, (f"/{egg}",))}


def test_an_editable_install_goes_with_its_source_tree(take: Take) -> None:
    pth = "__editable__.vllm-0.20.2.pth"
    layer = wheel(
        "vllm", "0.20.2", pth, "../../../bin/vllm", **{"direct_url.json": direct_url("/vllm-workspace/vllm")}
    )
    layer[f"{SITE}/{pth}"] = "/vllm-workspace/vllm\n"
    layer |= {
        "vllm-workspace/vllm/vllm/__init__.py": "",
        "vllm-workspace/vllm/.git/HEAD": "",
        "vllm-workspace/keep": "",
    }
    assert found(take(layer)) == {
        "vllm": (
            "0.20.2",
            True,
            (
                "/usr/local/bin/vllm",
                f"/{SITE}/__editable__.vllm-0.20.2.pth",
                f"/{SITE}/vllm-0.20.2.dist-info",
                "/vllm-workspace/vllm",
            ),
        )
    }


def test_a_finder_tells_an_editable_install_without_a_record_of_its_source(take: Take) -> None:
    finder = "__editable___demo_1_finder.py"
    layer = wheel("demo", "1", "__editable__.demo-1.pth", finder)
    layer[f"{SITE}/__editable__.demo-1.pth"] = "import __editable___demo_1_finder; x.install()"
    layer[f"{SITE}/{finder}"] = "MAPPING = {'demo': '/src/demo/demo', 'tool': '/src/demo/tool.py'}\n"
    layer |= {"src/demo/demo/__init__.py": "", "src/demo/tool.py": "", "src/demo/README": ""}
    version, editable, files = found(take(layer))["demo"]
    assert (version, editable) == ("1", True)
    assert "/src/demo/demo" in files
    assert "/src/demo/tool.py" in files
    assert f"/{SITE}/{finder}" in files


def test_a_path_file_in_the_record_tells_an_editable_install(take: Take) -> None:
    layer = {
        **wheel("demo", "1", "_demo.pth"),
        f"{SITE}/_demo.pth": "/src/demo/src\n",
        "src/demo/src/demo/x.py": "",
    }
    assert found(take(layer))["demo"] == (
        "1",
        True,
        ("/src/demo/src", f"/{SITE}/_demo.pth", f"/{SITE}/demo-1.dist-info"),
    )


def test_a_path_file_that_only_runs_code_makes_nothing_editable(take: Take) -> None:
    layer = {**wheel("setuptools", "80", "hack.pth"), f"{SITE}/hack.pth": "import os\n"}
    assert found(take(layer))["setuptools"][1] is False


def test_setup_py_develop_is_found_by_its_link(take: Take) -> None:
    layer = {
        f"{SITE}/flag-gems.egg-link": "/src/flaggems\n.",
        f"{SITE}/easy-install.pth": "/src/flaggems\n",
        "src/flaggems/flag_gems.egg-info/PKG-INFO": metadata("flag_gems", "5.0.2"),
        "src/flaggems/flag_gems/__init__.py": "",
    }
    assert found(take(layer)) == {
        "flag-gems": (
            "5.0.2",
            True,
            (
                "/src/flaggems",
                f"/{SITE}/easy-install.pth",
                f"/{SITE}/flag-gems.egg-link",
            ),
        )
    }


def test_a_path_file_that_others_need_too_stays(take: Take) -> None:
    layer = {
        f"{SITE}/a.egg-link": "/src/a\n.",
        f"{SITE}/b.egg-link": "/src/b\n.",
        f"{SITE}/easy-install.pth": "/src/a\n/src/b\n",
        "src/a/a.egg-info/PKG-INFO": metadata("a", "1"),
        "src/b/b.egg-info/PKG-INFO": metadata("b", "2"),
    }
    both = found(take(layer))
    assert both["a"] == ("1", True, ("/src/a", f"/{SITE}/a.egg-link"))
    assert both["b"] == ("2", True, ("/src/b", f"/{SITE}/b.egg-link"))


def test_a_source_tree_on_the_path_by_hand_is_found(take: Take) -> None:
    layer = {
        f"{SITE}/mine.pth": "/src/mine/src\n",
        "src/mine/src/mine.egg-info/PKG-INFO": metadata("mine", "3"),
        "src/mine/src/mine/x.py": "",
    }
    assert found(take(layer)) == {"mine": ("3", True, ("/src/mine/src", f"/{SITE}/mine.pth"))}


def test_a_source_tree_that_holds_an_interpreter_is_not_taken_out_as_a_whole(take: Take) -> None:
    venv = "sources/.venv/lib/python3.11/site-packages"
    layer = {
        **wheel("demo", "1", site=venv, **{"direct_url.json": direct_url("/sources")}),
        **wheel("torch", "2", "torch/x.py", site=venv),
        "sources/demo/x.py": "",
        "sources/data": "",
    }
    _, editable, files = found(take(layer))["demo"]
    assert editable
    assert files == (f"/{venv}/demo-1.dist-info", "/sources/demo")


@pytest.mark.parametrize("url", ["/", "", "/absent"])
def test_an_editable_install_of_nothing_takes_nothing_out(take: Take, url: str) -> None:
    layer = {**wheel("demo", "1", "demo.py", **{"direct_url.json": direct_url(url)}), "etc/passwd": ""}
    _, _, files = found(take(layer))["demo"]
    assert files == (f"/{SITE}/demo-1.dist-info", f"/{SITE}/demo.py")


def test_the_real_paths_are_taken_out_where_the_place_is_a_link(take: Take) -> None:
    real = "usr/local/python3.11.15/lib/python3.11/site-packages"
    layer = wheel("a", "1", "a/x.py", site=real)
    base = {"usr/local/lib/python3.11": ("symlink", "/usr/local/python3.11.15/lib/python3.11")}
    upper = {f"{SITE}/b.py": "", f"{SITE}/b-1.dist-info/METADATA": metadata("b", "1")}
    upper[f"{SITE}/b-1.dist-info/RECORD"] = "b.py,,\n"
    assert found(take({**base, **layer}, upper))["b"][2] == (f"/{real}/b-1.dist-info", f"/{real}/b.py")


STATUS = """Package: libc6
Status: install ok installed
Architecture: amd64
Version: 2.36-9+deb12u10
Description: x
 more

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1

Package: bash
Status: install ok installed
Architecture: amd64
Version: 5.2
"""


def test_debian_packages_are_those_installed(take: Take) -> None:
    inventory = take({"var/lib/dpkg/status": STATUS})
    assert [(item.name, item.version) for item in inventory.packages] == [
        ("bash", "5.2"),
        ("libc6", "2.36-9+deb12u10"),
    ]
    assert inventory.glibc == "2.36"


def test_distroless_images_list_packages_in_files_of_their_own(take: Take) -> None:
    one = "Package: libc6\nVersion: 2.31-13\nArchitecture: arm64\n"
    inventory = take(
        {"var/lib/dpkg/status.d/libc6": one, "var/lib/dpkg/status.d/tzdata": "Package: tzdata\nVersion: 1\n"}
    )
    assert [item.name for item in inventory.packages] == ["libc6", "tzdata"]
    assert inventory.glibc == "2.31"


def test_without_dpkg_the_c_library_speaks_for_itself(take: Take) -> None:
    library = "GNU C Library (GNU libc) stable release version {}.\n"
    inventory = take(
        {"usr/lib64/libc.so.6": library.format("2.38"), "lib/libc-2.4.so": library.format("2.4")}
    )
    assert inventory.glibc == "2.38"
    assert take({"etc/alpine-release": "3"}).glibc is None


@pytest.mark.parametrize("packed", [True, False])
def test_a_layer_file_is_read_compressed_or_not(
    pack: Callable[..., bytes], tmp_path: Path, packed: bool
) -> None:
    content = pack(wheel("a", "1", "a.py"))
    path = tmp_path / "layer"
    path.write_bytes(gzip.compress(content) if packed else content)
    assert set(found(read_tar(path))) == {"a"}
