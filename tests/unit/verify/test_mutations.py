"""Per check an image that breaks exactly it: only that check errs, in its own words, with exit code 8."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from flbuild.errors import VerificationError
from flbuild.verify.checks import CHECKS
from flbuild.verify.report import raise_if_failed
from flbuild.verify.run.observed import Answer, Import, Observed, Registration

SITE = "usr/local/lib/python3.11/dist-packages"
ZSTD = "application/vnd.oci.image.layer.v1.tar+zstd"
GZIP = "application/vnd.oci.image.layer.v1.tar+gzip"
DOCKER = "application/vnd.docker.distribution.manifest.v2+json"

Break = Callable[[object, object], None]


def another_base(case, make):
    case.locked_base = b"another root file system"


def zstd_in_a_docker_manifest(case, make):
    case.layout |= {"media_type": DOCKER, "layer_types": [GZIP, GZIP, ZSTD]}


def another_architecture(case, make):
    case.config["architecture"] = "arm64"


def not_recorded(case, make):
    case.recorded = False


def another_revision(case, make):
    case.labels["org.opencontainers.image.revision"] = "f" * 40


def a_redirected_import_path(case, make):
    case.env.append("PYTHONPATH=/somewhere")


def a_token_in_the_environment(case, make):
    case.env.append("HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz0123456789")


def another_version(case, make):
    case.drop("numpy")
    case.install("numpy", "2.2.0")


def what_the_recipe_forbids(case, make):
    case.recipe["forbid"] = ["triton"]
    case.add("triton", "3.6.0")


def a_module_with_two_owners(case, make):
    case.recipe["packages"] = [
        {"name": "flagtree", "version": "0.6", "provides_modules": {"triton": "3.5.1"}, "index": "flagos"}
    ]
    case.add("flagtree", "0.6", files={"triton/__init__.py": b"value = 1\n"})
    case.add("meddler", "1", files={"triton/backends.py": b"value = 2\n"})


def an_editable_install(case, make):
    url = b'{"dir_info": {"editable": true}, "url": "file:///source"}'
    files = {"numpy/__init__.py": b"value = 1\n", "numpy-1.26.4.dist-info/direct_url.json": url}
    case.drop("numpy")
    case.add("numpy", "1.26.4", files=files)


def a_changed_file(case, make):
    case.files[f"{SITE}/numpy/__init__.py"] = b"value = 2\n"


def another_record_than_the_wheels(case, make):
    path = make("numpy", "1.26.4", files={"numpy/__init__.py": b"value = 3\n"})
    case.wheels[path.name] = path


def a_plugin_nobody_finds(case, make):
    case.plugin = {path: data for path, data in case.plugin.items() if "entry_points" not in path}
    record = next(path for path in case.plugin if path.endswith("RECORD"))
    lines = case.plugin[record].splitlines(keepends=True)
    case.plugin[record] = b"".join(line for line in lines if b"entry_points" not in line)


def a_script_with_windows_line_ends(case, make):
    case.base["usr/local/bin/start"] = (b"#!/bin/sh\r\nexec true\r\n", 0o755)
    case.base["bin/sh"] = (b"\x7fELF", 0o755)


def an_unmet_requirement(case, make):
    case.add("opencv", "4.13", requires=["numpy>=2"])


def what_does_not_start(case, make):
    case.not_started = "exec /usr/bin/python3: no such file or directory"


def observed(**changes):
    works = {
        "import_path": (),
        "python_path": None,
        "prefixes": ("/usr",),
        "absent_drivers": (),
        "installed": (),
        "imports": tuple(
            Import(found=f"/usr/{name}.py", error=(), distribution=name, module=name)
            for name in ("vllm", "vllm-plugin-fl")
        ),
        "registrations": (
            Registration(found="fl.Platform", error=(), group="vllm.platform_plugins", name="fl"),
        ),
        "platform": Answer(found="fl.Platform", error=()),
        "pip_check": None,
    }
    return Observed(**works | changes)


def a_platform_that_vllm_does_not_take(case, make):
    case.observed = observed(platform=Answer(found="vllm.platforms.cpu.CpuPlatform", error=()))


def a_folder_of_sources(case, make):
    case.observed = observed(import_path=("/src",))


MUTATIONS: dict[str, tuple[Break, str]] = {
    "layers": (another_base, "base"),
    "media-types": (zstd_in_a_docker_manifest, "zstd"),
    "platform": (another_architecture, "arm64"),
    "output": (not_recorded, "records"),
    "labels": (another_revision, "revision"),
    "environment": (a_redirected_import_path, "PYTHONPATH"),
    "secrets": (a_token_in_the_environment, "HF_TOKEN"),
    "packages": (another_version, "numpy"),
    "forbidden": (what_the_recipe_forbids, "triton"),
    "modules": (a_module_with_two_owners, "meddler"),
    "editable": (an_editable_install, "numpy"),
    "record": (a_changed_file, "numpy/__init__.py does not have the recorded hash"),
    "wheels": (another_record_than_the_wheels, "numpy"),
    "entry-points": (a_plugin_nobody_finds, "vllm.platform_plugins"),
    "files": (a_script_with_windows_line_ends, "/usr/local/bin/start"),
    "requirements": (an_unmet_requirement, "opencv needs numpy>=2"),
    "imports": (what_does_not_start, "no such file"),
    "plugin": (a_platform_that_vllm_does_not_take, "CpuPlatform"),
    "import-path": (a_folder_of_sources, "/src"),
}
"""By check: what breaks it, and words of its message or subject."""


def test_every_check_has_a_mutation():
    assert set(MUTATIONS) == set(CHECKS)


def test_without_a_mutation_nothing_is_found(case):
    assert case.errors() == []


@pytest.mark.parametrize("check", MUTATIONS)
def test_a_broken_image_is_caught_by_the_check_that_it_breaks(check, case, wheel):
    change, words = MUTATIONS[check]
    change(case, wheel)
    errors = [finding for finding in case.findings() if finding.severity == "error"]
    assert {finding.check for finding in errors} == {check}
    assert any(words in f"{finding.subject}: {finding.message}" for finding in errors)
    with pytest.raises(VerificationError) as caught:
        raise_if_failed(errors)
    assert caught.value.exit_code == 8
    assert check in str(caught.value)
