from __future__ import annotations

import json

import pytest
import typer
from typer.testing import CliRunner

from flbuild.cli.plan import plan
from flbuild.errors import LockStaleError, UsageError
from flbuild.lock.io import write_lock
from flbuild.lock.model import Lock, LockedDebianBase, LockedFile, LockedImage, LockedLayer, Unresolved
from flbuild.recipe.canonical import canonical_hash
from flbuild.recipe.load import load_recipe

RECIPE = """\
schema: 1
name: demo
summary: a small image
platform: linux/amd64
python: {version: "3.11", site_packages: /usr/lib/python3/dist-packages}
base: {debian: bookworm}
vllm: {version: 0.28.0, device: cuda}
packages:
  - {name: numpy, version: 1.26.4}
plugin: {path: plugin, name: demo}
targets: {release: {}}
image: {repository: example.org/team/demo, tag: "demo-{target}"}
"""


def file(name, version):
    filename = f"{name}-{version}-py3-none-any.whl"
    return LockedFile(name=name, version=version, index="pypi", filename=filename, sha256="1" * 64, size=1000)


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write a project whose lock agrees with its recipe, with some values of the entry replaced."""
    root = tmp_path / "project"
    for path, text in {
        "recipes/demo.yaml": RECIPE,
        "plugin/pyproject.toml": '[project]\nname = "demo"\n',
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    monkeypatch.setenv("FLBUILD_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("FLBUILD_INDEX_PYPI_URL", "http://127.0.0.1:1/")
    monkeypatch.chdir(root)

    def make(**changes):
        digest = "sha256:" + "0" * 64
        layer = LockedLayer(digest=digest, size=1, media_type="x", diff_id=digest)
        values = {
            "recipe": canonical_hash(load_recipe(root / "recipes" / "demo.yaml")),
            "platform": "linux/amd64",
            "python": "3.11",
            "base": LockedDebianBase(suite="bookworm", epoch=1, layer=layer, packages=()),
            "packages": (file("numpy", "1.26.4"), file("vllm", "0.28.0")),
        }
        write_lock(root / "images.lock", Lock(images={"demo": LockedImage(**{**values, **changes})}))
        return root

    return make


def run(*arguments):
    app = typer.Typer()
    app.command()(plan)
    result = CliRunner().invoke(app, list(arguments))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.stdout


def test_a_plan_needs_neither_network_nor_builds(write, tmp_path):
    write()
    text = run("demo")
    assert text.startswith("example.org/team/demo:demo-release\n")
    assert "to fetch: 2.0 kB" in text
    assert not (tmp_path / "cache" / "wheels").exists()


def test_every_builder_is_shown_with_what_it_guarantees(write):
    write()
    lines = [line for line in run("demo").splitlines() if line.startswith("builder ")]
    assert [line.split(":")[0] for line in lines] == ["builder oci", "builder docker", "builder buildah"]
    assert "same digest on any machine" in lines[0]
    assert "another digest with every build" in lines[1]
    shown = json.loads(run("demo", "--json"))["builders"]
    assert [item["name"] for item in shown] == ["oci", "docker", "buildah"]


def test_json_is_one_document(write):
    write()
    data = json.loads(run("demo", "--json"))
    assert [layer["id"] for layer in data["layers"]] == ["packages", "vllm", "plugin"]
    assert data["layers"][-1]["wheels"][0]["sha256"] is None


def test_a_missing_input_is_shown_and_is_no_failure(write):
    gone = Unresolved(name="numpy", version="1.26.4", source="pypi", reason="did not answer")
    write(packages=(file("vllm", "0.28.0"),), unresolved=(gone,))
    assert "cannot be built:\n  numpy 1.26.4: pypi: did not answer" in run("demo")


def test_a_stale_lock_is_not_planned_with(write):
    root = write()
    path = root / "recipes" / "demo.yaml"
    path.write_text(RECIPE.replace("1.26.4", "2.0.0"))
    with pytest.raises(LockStaleError, match=r"numpy: the recipe pins 2\.0\.0"):
        run("demo")


def test_an_unknown_recipe_or_target_is_a_usage_error(write):
    write()
    with pytest.raises(UsageError, match="no recipe 'dem'"):
        run("dem")
    with pytest.raises(UsageError, match="no target 'ci'"):
        run("demo", "--target", "ci")
