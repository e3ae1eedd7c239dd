from __future__ import annotations

import base64
import hashlib
import json
import re
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from flbuild.build.oci.compile_worker import byte_code
from flbuild.build.oci.contents import wheel_entries
from flbuild.index.store import FileRef
from flbuild.lock.model import GitSource, LockedSource
from flbuild.plan.model import PlannedLayer
from flbuild.render.context import Built, context_texts, wanted_files
from flbuild.render.dockerfile import render_dockerfile

TEMPLATES = Path(__file__).parents[3] / "templates"


def test_every_layer_of_wheels_has_a_folder_that_names_them_by_hash(plan, stages):
    layer = PlannedLayer("remove", "remove", "out of the base", whiteouts=("/a", "/b"))
    texts = context_texts(stages(plan(layers=(layer,))), TEMPLATES)
    assert not any(path.startswith("layers/remove/") for path in texts)
    (wheel,) = json.loads(texts["layers/plugin/layer.json"])["wheels"]
    assert (wheel["name"], wheel["version"], wheel["sha256"]) == ("plugin", "1.0", "f" * 64)
    assert json.loads(texts["layers/plugin/layer.json"])["scheme"]["executable"] == "/usr/bin/python3"


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


@pytest.fixture
def step(tmp_path, make_wheel, wheel, plan):
    """`step(bytecode=...)`: a folder with a wheel and the `layer.json` that names it, and the scheme."""

    def make(*, bytecode=True, sha256=None):
        files = {"demo/__init__.py": b"value = 1\n", "demo-1.0.data/scripts/run": b"#!python\n"}
        path = make_wheel(tmp_path / "step", "demo", "1.0", files={**files, "broken.py": b"print 'no'\n"})
        found = hashlib.sha256(path.read_bytes()).hexdigest()
        planned = replace(wheel("demo"), sha256=sha256 or found, requested=True)
        # Inside this Python's temporary folder, where nothing of an image is in the way.
        site = f"{tmp_path}/image/site"
        scheme = replace(
            plan().scheme, site_packages=site, scripts=f"{tmp_path}/image/bin", bytecode=bytecode
        )
        text = json.dumps({"scheme": asdict(scheme), "wheels": [asdict(planned)]})
        (tmp_path / "step" / "layer.json").write_text(text)
        return path, planned, scheme

    return make


def installed(root):
    return {
        path.relative_to(root).as_posix(): (path.read_bytes(), path.stat().st_mode & 0o777)
        for path in root.rglob("*")
        if path.is_file()
    }


def test_the_installer_writes_what_the_assembler_would(tools, tmp_path, step):
    path, planned, scheme = step(bytecode=False)
    command = [*ALONE, str(tools / "install.py"), str(tmp_path / "step"), str(tmp_path / "out")]
    subprocess.run(command, check=True)
    wanted = wheel_entries([planned], {planned.sha256: path}, scheme, lambda entries: {})
    assert installed(tmp_path / "out") == {
        entry.path: (entry.content.open({}).read(), entry.mode) for entry in wanted
    }
    assert {entry.path.rpartition("/")[2] for entry in wanted} >= {"INSTALLER", "REQUESTED", "RECORD", "run"}


def test_the_installer_compiles_without_times_and_records_it(tools, tmp_path, step):
    _, _, scheme = step()
    command = [*ALONE, str(tools / "install.py"), str(tmp_path / "step"), str(tmp_path / "out")]
    subprocess.run(command, check=True)
    site = tmp_path / "out" / scheme.site_packages.lstrip("/")
    (compiled,) = site.glob("demo/__pycache__/*.pyc")
    content = compiled.read_bytes()
    assert content[4:8] == b"\x01\0\0\0"
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
    rows = [row.split(",") for row in (site / "demo-1.0.dist-info" / "RECORD").read_text().splitlines()]
    assert [f"demo/__pycache__/{compiled.name}", f"sha256={digest}", str(len(content))] in rows
    assert rows[-1] == ["demo-1.0.dist-info/RECORD", "", ""]
    assert not (site / "__pycache__").exists()


def test_the_installer_takes_no_other_wheel_than_the_locked_one(tools, tmp_path, step):
    step(sha256="0" * 64)
    command = [*ALONE, str(tools / "install.py"), str(tmp_path / "step"), str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0
    assert "no file here has the locked hash of: demo-1.0-py3-none-any.whl" in done.stderr
    assert not (tmp_path / "out").exists()


def test_folders_of_the_image_keep_their_modes_and_links_are_followed(tools, tmp_path, step):
    step(bytecode=False)
    image = tmp_path / "image"
    (image / "real").mkdir(parents=True)
    (image / "real").chmod(0o2775)
    (image / "bin").symlink_to("real")
    command = [*ALONE, str(tools / "install.py"), str(tmp_path / "step"), str(tmp_path / "out")]
    subprocess.run(command, check=True)
    below = tmp_path / "out" / str(image).lstrip("/")
    assert (below / "real" / "run").read_bytes() == b"#!/usr/bin/python3\n"
    assert (below / "real").stat().st_mode & 0o7777 == 0o2775
    assert not (below / "bin").exists()
    assert (below / "site").stat().st_mode & 0o7777 == 0o755


def test_B77_byte_code_holds_no_time():
    assert int.from_bytes(byte_code("/m.py", b"x = 1\n")[4:8], "little") == 0b01


def test_B74_pip_conf_has_lf(stages, tmp_path):
    (tmp_path / "pip.conf").write_bytes(b"[global]\r\nno-index = true\r\n")
    assert context_texts(stages(), tmp_path)["tools/pip.conf"] == b"[global]\nno-index = true\n"


def test_every_folder_that_the_dockerfile_copies_is_in_the_context(plan, layer, wheel, stages):
    gone = PlannedLayer("remove", "remove", "out of the base", whiteouts=("/a",))
    common = (gone, layer("dependencies", wheel("requests")), layer("vllm", wheel("vllm", origin="source")))
    made = stages(plan("release", common), plan("ci", (*common, layer("target-ci", wheel("pytest")))))
    places = {*context_texts(made, TEMPLATES), *(item.path for item in wanted_files(made))}
    text = render_dockerfile(made, TEMPLATES)
    copied = set(re.findall(r"^COPY ([^- ]\S*) /tmp/", text, re.MULTILINE))
    assert {"tools", "base", "sources/vllm", "layers/ci/target-ci"} <= copied
    assert [folder for folder in copied if not any(path.startswith(f"{folder}/") for path in places)] == []
    assert [path for path in places if not any(path.startswith(f"{folder}/") for folder in copied)] == []
