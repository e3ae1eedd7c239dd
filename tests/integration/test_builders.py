"""One plan, three builders: the same files whoever builds, and what each does when something is wrong."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from checkout import Checkout
from docker_engine import Engine
from image_files import ImageFiles, Item, differences
from registry_server import RegistryServer

from flbuild.lock.io import read_lock
from flbuild.recipe.load import load_recipe

EVERYTHING = ("release", "ci", "dev")
TARGETS = {"cuda": EVERYTHING, "ascend": ("release",)}
"""What is built of each recipe by every builder: what `make test` has the time for, or all there is."""
if os.environ.get("FLBUILD_TEST_BUILDERS") == "all":
    TARGETS = {"cuda": EVERYTHING, "ascend": EVERYTHING, "cpu": EVERYTHING}
OTHERS = ("docker", "buildah")
ASCEND_SITE = "usr/local/python3.11.15/lib/python3.11/site-packages"
SECRET = "hunter2-and-more"

Layouts = dict[tuple[str, str], Path]
"""By builder and target."""

Places = dict[str, str]
"""Environment variables that say where docker and buildah work."""


@pytest.fixture(scope="session")
def storage() -> Iterator[Path]:
    """Settings of a storage for buildah that these tests share."""
    with buildah_storage() as settings:
        yield settings


@contextmanager
def buildah_storage() -> Iterator[Path]:
    """Settings of a storage of its own for buildah, gone afterwards; buildah leaves a mount in it."""
    folder = Path(tempfile.mkdtemp(prefix="flbuild-buildah-"))
    places = f'graphroot = "{folder}/graph"\nrunroot = "{folder}/run"\n'
    (folder / "storage.conf").write_text(f'[storage]\ndriver = "overlay"\n{places}')
    try:
        yield folder / "storage.conf"
    finally:
        subprocess.run(["umount", f"{folder}/graph/overlay"], capture_output=True, check=False)
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def places(engine: Engine, storage: Path, tmp_path_factory: pytest.TempPathFactory) -> Places:
    """Where docker and buildah work in these tests; the docker client has no plugins, and so no buildx."""
    client = tmp_path_factory.mktemp("docker-config")
    return {
        "DOCKER_HOST": engine.address,
        "DOCKER_CONFIG": str(client),
        "CONTAINERS_STORAGE_CONF": str(storage),
        # The engine needs runc too; buildah would take crun first, which wants cgroups of one version.
        "BUILDAH_RUNTIME": "runc",
    }


@pytest.fixture(scope="session")
def files() -> ImageFiles:
    return ImageFiles()


def no_fetch(digest: str) -> Path:
    raise AssertionError(f"a layout lacks {digest}")


def blob(layout: Path, digest: str) -> Any:
    return json.loads((layout / "blobs" / "sha256" / digest.removeprefix("sha256:")).read_bytes())


def config_of(layout: Path) -> dict[str, Any]:
    index = json.loads((layout / "index.json").read_bytes())
    manifest = blob(layout, index["manifests"][0]["digest"])
    return dict(blob(layout, manifest["config"]["digest"]))


def layers_of(layout: Path) -> list[str]:
    index = json.loads((layout / "index.json").read_bytes())
    return [layer["digest"] for layer in blob(layout, index["manifests"][0]["digest"])["layers"]]


def build(
    checkout: Checkout,
    name: str,
    target: str,
    builder: str,
    folder: Path,
    places: Places,
    **more: str,
) -> Path:
    """A layout of one target by one builder."""
    layout = folder / f"{name}-{target}-{builder}"
    options = ["--target", target, "--builder", builder, "--output", f"oci:{layout}"]
    checkout.flbuild("image", name, *options, **{**places, **more})
    return layout


def build_all(checkout: Checkout, name: str, folder: Path, places: Places) -> Layouts:
    """Layouts of a recipe's targets by every builder; the builders work side by side."""

    def chain(builder: str) -> Layouts:
        return {
            (builder, target): build(checkout, name, target, builder, folder, places)
            for target in TARGETS[name]
        }

    layouts = chain("oci")
    with ThreadPoolExecutor(len(OTHERS)) as pool:
        for made in pool.map(chain, OTHERS):
            layouts |= made
    return layouts


@pytest.fixture(scope="module")
def ascend(hardware: Checkout, places: Places, tmp_path_factory: pytest.TempPathFactory) -> Layouts:
    return build_all(hardware, "ascend", tmp_path_factory.mktemp("ascend"), places)


@pytest.fixture(scope="module")
def cuda(hardware: Checkout, places: Places, tmp_path_factory: pytest.TempPathFactory) -> Layouts:
    return build_all(hardware, "cuda", tmp_path_factory.mktemp("cuda"), places)


@pytest.fixture(scope="module")
def cpu(cpu_image: Any, places: Places, tmp_path_factory: pytest.TempPathFactory) -> Layouts:
    return build_all(cpu_image.checkout, "cpu", tmp_path_factory.mktemp("cpu-builders"), places)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", TARGETS)
def test_all_builders_install_the_same_files_and_set_the_same_configuration(
    name: str, files: ImageFiles, request: pytest.FixtureRequest, hardware: Checkout
) -> None:
    layouts = request.getfixturevalue(name)
    workdir = load_recipe(hardware.root / "recipes" / f"{name}.yaml").workdir
    for target in TARGETS[name]:
        reference = layouts["oci", target]
        wanted = files.of(reference, no_fetch)
        if workdir is not None:
            # Whatever starts a container makes this folder; builders of Dockerfiles make it before.
            wanted.setdefault(workdir.lstrip("/"), Item("folder", 0o755, (0, 0)))
        for builder in OTHERS:
            found = files.of(layouts[builder, target], no_fetch)
            assert differences(wanted, found) == [], (builder, target)
            one, other = config_of(reference), config_of(layouts[builder, target])
            assert (one["architecture"], one["created"]) == (other["architecture"], other["created"])
            for key in ("Entrypoint", "Cmd", "WorkingDir", "Labels"):
                assert (one["config"].get(key) or None) == (other["config"].get(key) or None), key
            assert sorted(one["config"]["Env"]) == sorted(other["config"]["Env"])


def test_B77_layers_of_a_registry_base_are_the_same_blobs_whoever_builds(
    ascend: Layouts, hardware: Checkout
) -> None:
    base = read_lock(hardware.root / "images.lock").images["ascend"].base
    assert base is not None
    wanted = [layer.digest for layer in base.layers]
    for layout in ascend.values():
        assert layers_of(layout)[: len(wanted)] == wanted


def test_no_layer_of_any_image_holds_a_wheel_or_a_tool(ascend: Layouts) -> None:
    from image_files import read_layer

    layout = ascend["docker", "release"]
    for digest in layers_of(layout):
        paths = read_layer(layout / "blobs" / "sha256" / digest.removeprefix("sha256:"))
        assert not [path for path in paths if path.endswith(".whl") or path.startswith("tmp/")]


def test_what_the_ascend_base_carries_is_gone_and_flagtree_owns_triton(
    ascend: Layouts, files: ImageFiles
) -> None:
    found = files.of(ascend["oci", "release"], no_fetch)
    site = [path.removeprefix(f"{ASCEND_SITE}/") for path in found if path.startswith(f"{ASCEND_SITE}/")]
    names = {path.partition("/")[0] for path in site}
    assert not [name for name in names if name.startswith("__editable__")]
    # setuptools brings a .pth of its own.
    left = {path for path in site if path.endswith(("direct_url.json", ".pth"))}
    assert left <= {"distutils-precedence.pth"}
    assert not [path for path in found if path.startswith("vllm-workspace/") and found[path].kind != "folder"]
    assert not [name for name in names if name.startswith(("triton_ascend", "vllm_ascend"))]
    assert "triton/backends/ascend/__init__.py" not in site
    assert "triton/_C/libtriton.so" in site
    # Nothing that was installed later lifted what the base and the recipe fix.
    versions = {name for name in names if name.endswith(".dist-info")}
    for name in ("numpy", "torch", "torch_npu", "flagtree", "vllm"):
        (info,) = [version for version in versions if version.startswith(f"{name}-")]
        assert info in {
            "numpy-1.26.4.dist-info",
            "torch-2.10.0+cpu.dist-info",
            "torch_npu-2.10.0.dist-info",
            "flagtree-0.6.2a1+ascend3.5.dist-info",
            "vllm-0.28.0+empty.dist-info",
        }


def test_the_ascend_image_is_for_arm64_and_was_made_on_this_machine(
    ascend: Layouts,
) -> None:
    config = config_of(ascend["oci", "release"])
    assert (config["architecture"], config["variant"]) == ("arm64", "v8")
    assert os.uname().machine == "x86_64"


def test_buildah_gives_the_same_digest_in_another_storage(
    cuda: Layouts, hardware: Checkout, places: Places, tmp_path: Path
) -> None:
    with buildah_storage() as settings:
        other = {**places, "CONTAINERS_STORAGE_CONF": str(settings)}
        again = build(hardware, "cuda", "release", "buildah", tmp_path, other)
    first = cuda["buildah", "release"]
    assert (again / "index.json").read_bytes() == (first / "index.json").read_bytes()


@pytest.mark.parametrize("builder", OTHERS)
def test_B76_neither_proxy_nor_certificate_nor_credential_is_in_history_or_configuration(
    builder: str,
    cuda: Layouts,
    hardware: Checkout,
    places: Places,
    tmp_path: Path,
) -> None:
    proxy = f"http://user:{SECRET}@proxy.invalid:3128"
    certificate = tmp_path / f"{SECRET}.pem"
    shutil.copy("/etc/ssl/certs/ca-certificates.crt", certificate)
    more = {
        **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), proxy),
        **dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1"),
        **{name: str(certificate) for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT")},
        "PIP_INDEX_URL": f"https://user:{SECRET}@mirror.invalid/simple",
        "FLBUILD_REGISTRY_DOCKER_IO_USERNAME": "user",
        "FLBUILD_REGISTRY_DOCKER_IO_PASSWORD": SECRET,
    }
    layout = build(hardware, "cuda", "release", builder, tmp_path, places, **more)
    for path in layout.rglob("*"):
        if path.is_file() and path.stat().st_size < 1 << 20:
            assert SECRET.encode() not in path.read_bytes()
            assert b"proxy.invalid" not in path.read_bytes()
    logs = Path(hardware.environ["FLBUILD_CACHE_DIR"]) / "logs"
    assert SECRET not in (logs / f"image-cuda-release-{builder}.log").read_text()
    context = config_of(cuda[builder, "release"])
    assert config_of(layout)["config"] == context["config"]


def test_the_lock_records_who_built(hardware: Checkout, cuda: Layouts) -> None:
    outputs = read_lock(hardware.root / "images.lock").images["cuda"].outputs
    assert {output.builder for output in outputs} == {"oci", *OTHERS}


@pytest.mark.parametrize("builder", OTHERS)
def test_B31_a_base_that_is_gone_is_told_with_its_log_and_the_way_out(
    builder: str, hardware: Checkout, places: Places, fresh_registry: RegistryServer, tmp_path: Path
) -> None:
    done = fail(hardware, builder, 5, places, fresh_registry.host, tmp_path)
    assert "flbuild lock cuda --refresh-base" in done
    assert f"image-cuda-release-{builder}.log" in done


@pytest.mark.parametrize("builder", OTHERS)
def test_a_registry_that_does_not_answer_is_told_apart(
    builder: str, hardware: Checkout, places: Places, tmp_path: Path
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{free.getsockname()[1]}"
    assert "does not reach the registry" in fail(hardware, builder, 10, places, host, tmp_path)


def test_a_registry_that_asks_for_patience_is_told_apart(
    hardware: Checkout, places: Places, impatient: str, tmp_path: Path
) -> None:
    """Buildah waits for two minutes before it gives up, so it is not asked."""
    assert "(429)" in fail(hardware, "docker", 6, places, impatient, tmp_path)


@pytest.fixture
def impatient() -> Iterator[str]:
    """A registry that has had enough of everybody."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b'{"errors": [{"code": "TOOMANYREQUESTS", "message": "rate limit"}]}'
            self.send_response(200 if self.path == "/v2/" else 429)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_HEAD = do_GET

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def fail(checkout: Checkout, builder: str, status: int, places: Places, mirror: str, folder: Path) -> str:
    """What a build prints that cannot have the base from `mirror`; nothing is written."""
    with buildah_storage() as settings:
        more = {**places, "CONTAINERS_STORAGE_CONF": str(settings)}
        options = ["--builder", builder, "--output", f"oci:{folder / 'out'}"]
        variable = {"FLBUILD_REGISTRY_DOCKER_IO_MIRROR": mirror}
        done = checkout.flbuild("image", "cuda", *options, status=status, **{**more, **variable})
    assert not (folder / "out").exists()
    assert done.stdout == ""
    return done.stderr


def test_loading_without_an_engine_fails_before_anything_is_built(hardware: Checkout, tmp_path: Path) -> None:
    nowhere = {"DOCKER_HOST": f"unix://{tmp_path}/absent.sock", "FLBUILD_CACHE_DIR": str(tmp_path / "cache")}
    done = hardware.flbuild("image", "cuda", "--load", status=10, **nowhere)
    assert "set DOCKER_HOST" in done.stderr
    assert not (tmp_path / "cache").exists()


def test_an_image_of_the_engine_is_loaded_into_it_and_runs(
    hardware: Checkout, places: Places, engine: Engine, cuda: Layouts
) -> None:
    done = hardware.flbuild("image", "cuda", "--builder", "docker", "--load", **places)
    found = engine.client.images.get(done.stdout.strip())
    assert found.tags
    command = ["-c", "import triton, vllm_fl; print(triton.__version__)"]
    output = engine.client.containers.run(
        found.id, command, entrypoint="python3", remove=True, network_mode="none"
    )
    assert output.decode().strip() == "3.6.0"
