"""The cpu image in the hands of other tools: registries, engines, skopeo, umoci."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
from pathlib import Path

import pytest
from cpu_image import IMPORTS, CpuImage
from docker_engine import Engine
from registry_server import PASSWORD, USER, RegistryServer

from flbuild.progress import Silent
from flbuild.registry.client import RegistryClient
from flbuild.registry.reference import Reference
from flbuild.settings import load_settings

SITE = "usr/local/lib/python3.11/dist-packages"


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def imports(engine: Engine, image: str) -> dict[str, object]:
    """What the program that imports vLLM and the plugin prints in a container of `image`."""
    return dict(json.loads(engine.run(image, ["python3", "-c", IMPORTS]).splitlines()[-1]))


@pytest.fixture(scope="module")
def pushed(cpu_image: CpuImage, registry: RegistryServer) -> Reference:
    """The image in the registry, by digest."""
    target = f"{registry.host}/first/cpu:1"
    done = cpu_image.checkout.flbuild("image", "cpu", "--push", "--reference", target)
    return Reference.parse(done.stdout.strip())


def test_skopeo_reads_the_layout(cpu_image: CpuImage) -> None:
    seen = json.loads(run("skopeo", "inspect", f"oci:{cpu_image.layout}:{cpu_image.tag}"))
    assert seen["Digest"] == cpu_image.digest
    assert seen["Layers"] == [layer["digest"] for layer in cpu_image.summary["layers"]]
    labels = seen["Labels"]
    assert labels["org.opencontainers.image.revision"] == cpu_image.summary["plugin"]["revision"]
    assert labels["org.opencontainers.image.version"] == cpu_image.summary["plugin"]["version"]
    assert seen["Architecture"] == "amd64"
    assert "VLLM_PLUGINS=fl" in seen["Env"]


def test_skopeo_copies_the_layout_and_finds_every_digest_right(cpu_image: CpuImage, tmp_path: Path) -> None:
    run("skopeo", "copy", f"oci:{cpu_image.layout}:{cpu_image.tag}", f"dir:{tmp_path}")
    assert (tmp_path / "manifest.json").read_bytes() == cpu_image.manifest
    for layer in cpu_image.summary["layers"]:
        assert (tmp_path / layer["digest"].removeprefix("sha256:")).stat().st_size == layer["size"]


def test_umoci_unpacks_the_layout_to_a_root_with_everything_in_it(
    cpu_image: CpuImage, tmp_path: Path
) -> None:
    run("umoci", "unpack", "--image", f"{cpu_image.layout}:{cpu_image.tag}", str(tmp_path / "bundle"))
    root = tmp_path / "bundle" / "rootfs"
    process = json.loads((tmp_path / "bundle" / "config.json").read_bytes())["process"]
    assert "VLLM_FL_PLATFORM=cpu" in process["env"]
    done = run("chroot", str(root), "/usr/bin/python3", "-c", "import vllm_fl; print(vllm_fl.__file__)")
    assert done.strip() == f"/{SITE}/vllm_fl/__init__.py"
    files = [root / SITE / "vllm_fl" / "__init__.py", root / "usr/bin/python3.11"]
    assert all(path.stat().st_uid == 0 for path in files)


def test_a_pushed_image_is_byte_for_byte_the_one_of_the_layout(
    cpu_image: CpuImage, pushed: Reference, registry: RegistryServer, client: RegistryClient
) -> None:
    assert pushed.digest == cpu_image.digest
    assert client.manifest(pushed).raw == cpu_image.manifest
    assert client.tags(pushed) == ("1",)
    for digest in [cpu_image.summary["config"], *(layer["digest"] for layer in cpu_image.summary["layers"])]:
        stored = registry.blob_path(digest)
        with stored.open("rb") as stream:
            found = hashlib.sha256()
            while piece := stream.read(1 << 20):
                found.update(piece)
        assert f"sha256:{found.hexdigest()}" == digest


def test_the_push_is_recorded_in_the_lock(cpu_image: CpuImage, pushed: Reference) -> None:
    verified = cpu_image.checkout.flbuild("verify", "digest", str(pushed))
    assert cpu_image.digest in verified.stdout + verified.stderr


def test_an_engine_loads_the_docker_archive_and_the_container_imports_vllm_and_the_plugin(
    cpu_image: CpuImage, engine: Engine, tmp_path: Path
) -> None:
    archive = tmp_path / "image.tar"
    cpu_image.checkout.flbuild("image", "cpu", "--output", f"docker-archive:{archive}")
    with archive.open("rb") as stream:
        (loaded,) = engine.client.images.load(stream)
    assert loaded.id == cpu_image.summary["config"]
    assert imports(engine, loaded.id) == cpu_image.versions


def test_load_puts_the_image_into_the_engine_and_prints_its_id(cpu_image: CpuImage, engine: Engine) -> None:
    done = cpu_image.checkout.flbuild("image", "cpu", "--load", DOCKER_HOST=engine.address)
    assert done.stdout.strip() == cpu_image.summary["config"]
    found = engine.client.images.get(cpu_image.summary["config"])
    assert found.tags == [f"harbor.baai.ac.cn/plugin/vllm-plugin-fl:{cpu_image.tag}"]


def test_load_without_an_engine_says_how_to_get_one(cpu_image: CpuImage, tmp_path: Path) -> None:
    nowhere = f"unix://{tmp_path}/none"
    done = cpu_image.checkout.flbuild("image", "cpu", "--load", status=10, DOCKER_HOST=nowhere)
    assert "DOCKER_HOST" in done.stderr
    assert done.stdout == ""


def test_an_engine_pulls_by_digest_and_the_container_imports_vllm_and_the_plugin(
    cpu_image: CpuImage, pushed: Reference, engine: Engine
) -> None:
    found = engine.client.images.pull(str(pushed))
    assert found.id == cpu_image.summary["config"]
    assert imports(engine, str(pushed)) == cpu_image.versions


def test_a_second_repository_takes_the_layers_from_the_first(
    cpu_image: CpuImage, pushed: Reference, registry: RegistryServer
) -> None:
    target = f"{registry.host}/second/cpu:1"
    push = cpu_image.checkout.flbuild("image", "cpu", "--push", "--reference", target, "--json").json["push"]
    assert push["mounted"] == len(cpu_image.summary["layers"])
    assert push["uploaded"] == 0
    config = cpu_image.blob(cpu_image.summary["config"]).stat().st_size
    assert push["sent"] == config + 2 * len(cpu_image.manifest)


def test_a_private_registry_is_opened_by_dockers_own_configuration(
    cpu_image: CpuImage, private_registry: RegistryServer, tmp_path: Path
) -> None:
    target = f"{private_registry.host}/private/cpu:1"
    command = ["image", "cpu", "--push", "--reference", target]
    folder = tmp_path / "docker"
    folder.mkdir()
    refused = cpu_image.checkout.flbuild(*command, status=6, DOCKER_CONFIG=str(folder))
    assert "docker login" in refused.stderr
    auth = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    (folder / "config.json").write_text(json.dumps({"auths": {private_registry.host: {"auth": auth}}}))
    done = cpu_image.checkout.flbuild(*command, DOCKER_CONFIG=str(folder))
    reference = Reference.parse(done.stdout.strip())
    environ = {**cpu_image.checkout.environ, "DOCKER_CONFIG": str(folder)}
    client = RegistryClient(load_settings(None, environ), Silent(), environ)
    assert client.manifest(reference).raw == cpu_image.manifest
    assert PASSWORD not in done.stderr + (cpu_image.checkout.root / "images.lock").read_text()
