from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from flbuild.build.oci.compile_worker import byte_code
from flbuild.index.store import FileRef
from flbuild.lock.model import GitSource, LockedSource
from flbuild.plan.model import PlannedLayer
from flbuild.render.context import Built, context_texts, wanted_files
from flbuild.render.dockerfile import render_dockerfile

TEMPLATES = Path(__file__).parents[3] / "templates"


def test_every_layer_has_a_folder_with_its_requirements_or_its_paths(plan, stages):
    layer = PlannedLayer("remove", "remove", "out of the base", whiteouts=("/a", "/b"))
    texts = context_texts(stages(plan(layers=(layer,))), TEMPLATES)
    assert texts["layers/remove/paths.txt"] == b"/a\n/b\n"
    assert texts["layers/plugin/requirements.txt"] == b"plugin==1.0 --hash=sha256:" + b"f" * 64 + b"\n"


def test_what_no_installer_checks_has_its_sum_beside_it(stages):
    texts = context_texts(stages(), TEMPLATES)
    assert texts["sources/vllm/SHA256SUMS"] == b"a" * 64 + b"  /tmp/source/vllm-0.28.0.tar.gz\n"
    assert texts["base/SHA256SUMS"] == b"d" * 64 + b"  /tmp/base/root.tar.gz\n"


def test_an_image_base_needs_no_file(plan, image_base, stages):
    made = stages(plan(base=image_base))
    assert "base/SHA256SUMS" not in context_texts(made, TEMPLATES)
    assert not any(item.path.startswith("base/") for item in wanted_files(made))


def test_build_tools_are_pinned_and_pip_stands_apart(stages):
    made = stages()
    assert context_texts(made, TEMPLATES)["tools/requirements.txt"].startswith(
        b"setuptools==80 --hash=sha256:1"
    )
    places = {item.path: item.pin for item in wanted_files(made)}
    assert places["tools/pip.whl"] == FileRef("pip", "pypi", "pip-26-py3-none-any.whl", "2" * 64, 1)
    assert places["tools/wheels/setuptools-80-py3-none-any.whl"].sha256 == "1" * 64


def test_wheels_that_a_stage_builds_are_not_wanted_but_their_sources_are(stages):
    places = {item.path: item.pin for item in wanted_files(stages())}
    assert not any(path.startswith("layers/vllm/") for path in places)
    assert places["sources/vllm/vllm-0.28.0.tar.gz"].sha256 == "a" * 64
    assert isinstance(places["layers/plugin/plugin-1.0-py3-none-any.whl"], Built)


def test_the_plugin_is_wanted_once_for_all_targets(plan, stages):
    paths = [item.path for item in wanted_files(stages(plan("release"), plan("ci")))]
    assert len(paths) == len(set(paths))


def test_a_git_source_is_wanted_as_the_archive_of_its_commit(stages):
    pin = GitSource(git="https://example.org/gems", commit="c" * 40, archive_sha256="b" * 64)
    source = LockedSource(
        name="gems", version="1", source=pin, filename="gems-1-py3-none-any.whl", sha256="e" * 64, size=1
    )
    made = stages(sources=(source,))
    assert {item.path: item.pin for item in wanted_files(made)}[f"sources/gems/gems-{'c' * 12}.tar"] == pin
    assert context_texts(made, TEMPLATES)["sources/gems/SHA256SUMS"].startswith(b"b" * 64)


@pytest.fixture
def tools(stages, tmp_path):
    """The tools of a context, on disk."""
    for path, content in context_texts(stages(), TEMPLATES).items():
        target = tmp_path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    return tmp_path / "tools"


ALONE = (sys.executable, "-E", "-s", "-S")


def test_what_runs_in_the_build_needs_nothing_but_pythons_library(tools):
    library = tools / "library"
    code = f"import sys; sys.path.insert(0, {str(library)!r}); import flbuild.files, flbuild.errors"
    subprocess.run([*ALONE, "-c", code], check=True)


def test_new_modules_are_compiled_once_and_recorded(tools, tmp_path):
    site = tmp_path / "site"
    info = site / "demo-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "module.py").write_text("value = 1\n")
    (site / "broken.py").write_text("print 'python 2'\n")
    (info / "RECORD").write_text("module.py,sha256=x,10\nbroken.py,sha256=x,1\ndemo-1.0.dist-info/RECORD,,\n")
    command = [*ALONE, str(tools / "compile_new.py"), str(site)]
    subprocess.run(command, check=True)
    (compiled,) = (site / "__pycache__").iterdir()
    content = compiled.read_bytes()
    rows = [row.split(",") for row in (info / "RECORD").read_text().splitlines()]
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
    assert [f"__pycache__/{compiled.name}", f"sha256={digest}", str(len(content))] in rows
    assert rows[-1] == ["demo-1.0.dist-info/RECORD", "", ""]
    compiled.write_bytes(content + b"kept")
    subprocess.run(command, check=True)
    assert compiled.read_bytes() == content + b"kept"
    compiled.write_bytes(content[:4] + b"\0\0\0\0" + content[8:])
    subprocess.run(command, check=True)
    assert compiled.read_bytes() == content


def test_B77_byte_code_holds_no_time():
    assert int.from_bytes(byte_code("/m.py", b"x = 1\n")[4:8], "little") == 0b01


def test_B74_pip_conf_has_lf(stages, tmp_path):
    (tmp_path / "pip.conf").write_bytes(b"[global]\r\nno-index = true\r\n")
    assert context_texts(stages(), tmp_path)["tools/pip.conf"] == b"[global]\nno-index = true\n"


def test_every_folder_that_the_dockerfile_mounts_is_in_the_context(plan, layer, wheel, stages):
    gone = PlannedLayer("remove", "remove", "out of the base", whiteouts=("/a",))
    common = (gone, layer("dependencies", wheel("requests")), layer("vllm", wheel("vllm", origin="source")))
    made = stages(plan("release", common), plan("ci", (*common, layer("target-ci", wheel("pytest")))))
    places = {*context_texts(made, TEMPLATES), *(item.path for item in wanted_files(made))}
    text = render_dockerfile(made, TEMPLATES)
    mounted = set(re.findall(r"type=bind,source=([^,]+),", text))
    assert {"tools", "base", "sources/vllm", "layers/remove", "layers/ci/target-ci"} <= mounted
    assert [folder for folder in mounted if not any(path.startswith(f"{folder}/") for path in places)] == []
    used = {path for path in places if not path.startswith("tools/")}
    assert [path for path in used if not any(path.startswith(f"{folder}/") for folder in mounted)] == []
