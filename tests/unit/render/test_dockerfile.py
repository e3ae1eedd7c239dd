from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from flbuild.errors import UsageError
from flbuild.plan.model import PlannedLayer
from flbuild.render.dockerfile import quote, render_dockerfile

TEMPLATES = Path(__file__).parents[3] / "templates"


@pytest.fixture
def render(stages):
    """`render(plan, ...)`: the text for these plans."""
    return lambda *plans: render_dockerfile(stages(*plans), TEMPLATES)


def instructions(text, *names):
    """Whole instructions, their continued lines joined."""
    joined = re.sub(r"\\\n\s*", "", text)
    return [line for line in joined.splitlines() if line.startswith(names)]


def test_stages_end_with_the_targets_in_their_order(plan, render):
    text = render(plan("release"), plan("ci"), plan("dev"))
    stages = [line.rpartition(" AS ")[2] for line in instructions(text, "FROM")]
    unpacking = ["dependencies-files", "vllm-files", "plugin-files"]
    assert stages == ["root", "tools", "vllm-wheel", *unpacking, "base", "release", "ci", "dev"]


def test_an_image_base_is_pinned_by_tag_and_digest_of_its_platform(plan, image_base, render):
    text = render(plan(base=image_base))
    bases = [line for line in instructions(text, "FROM") if "BASE_IMAGE" in line]
    assert bases == [f"FROM ${{BASE_IMAGE}}@sha256:{'c' * 64} AS {name}" for name in ("tools", "base")]
    assert instructions(text, "ARG") == ["ARG BASE_IMAGE=quay.io/team/base:v1"]
    assert text.index("ARG BASE_IMAGE") < text.index("FROM ")


def test_a_debian_base_is_a_checked_file_on_scratch(render):
    text = render()
    assert "FROM scratch AS root\nADD base/root.tar.gz /\nENV PATH=" in text
    assert "sha256sum --check --strict --quiet /tmp/base/SHA256SUMS" in text


def test_B04_pip_installs_build_tools_alone_by_hash_and_no_dependencies(render):
    (run,) = [run for run in instructions(render(), "RUN") if " install " in run]
    assert "install --target /build/tools" in run
    assert "--require-hashes --no-deps --requirement" in run
    assert "uv pip" not in render()
    assert "vllm==" not in render()


def test_B04_pip_is_told_to_ask_no_index():
    lines = (TEMPLATES / "pip.conf").read_text().splitlines()
    assert "no-index = true" in lines


def test_B28_no_python_runs_where_torch_would_load_a_device_backend(render):
    assert not re.search(r"import torch|-c ", " ".join(instructions(render(), "RUN")))
    (env,) = (env for env in instructions(render(), "ENV") if "VLLM_TARGET_DEVICE" in env)
    assert env.startswith("ENV TORCH_DEVICE_BACKEND_AUTOLOAD=0 ")
    assert "TORCH_DEVICE_BACKEND_AUTOLOAD" not in instructions(render(), "ENV")[-1]


def test_B76_nothing_of_networks_certificates_or_credentials_is_in_the_history(render, monkeypatch):
    for name in ("HTTPS_PROXY", "https_proxy", "PIP_CERT", "SSL_CERT_FILE", "PIP_INDEX_URL"):
        monkeypatch.setenv(name, "http://user:secret@proxy.example.org")
    text = render()
    assert not instructions(text, "ARG")
    kept = " ".join(instructions(text, "ENV", "LABEL", "RUN")).lower()
    assert not re.search(r"proxy|pip_cert|ssl_cert|index.url|secret|password", kept)


def test_no_layer_of_an_image_keeps_a_wheel(render):
    text = render()
    _, _, images = text.partition("FROM root AS base")
    copies = instructions(images, "COPY", "ADD")
    assert copies
    assert all(re.fullmatch(r"COPY --from=\S+-files /tmp/files/ /", line) for line in copies)
    assert [line.split()[1] for line in instructions(text, "ADD")] == ["base/root.tar.gz"]


def test_images_stand_on_stages_that_hold_nothing_of_the_build(render):
    stages = {line.split()[-1]: line.split()[1] for line in instructions(render(), "FROM")}
    assert stages["release"] == "base"
    assert stages["base"] == "root"
    assert stages["dependencies-files"] == stages["vllm-wheel"] == "tools"


def test_what_leaves_the_base_goes_by_the_locked_paths(plan, render):
    layer = PlannedLayer("remove", "remove", "out of the base: triton", whiteouts=("/a",))
    assert "RUN rm --recursive --force -- /a" in instructions(render(plan(layers=(layer,))), "RUN")


def test_paths_are_quoted_and_many_of_them_are_spread_over_commands(plan, render):
    paths = (*(f"/{'x' * 100}/{number:06}" for number in range(1500)), "/with space/$HOME")
    layer = PlannedLayer("remove", "remove", "out of the base", whiteouts=paths)
    runs = [run for run in instructions(render(plan(layers=(layer,))), "RUN") if run.startswith("RUN rm ")]
    assert len(runs) > 1
    assert max(map(len, runs)) < 131_072
    assert runs[0].startswith("RUN rm --recursive --force -- '/with space/$HOME' /x")
    assert sum(run.count("/xxx") for run in runs) == 1500


def test_the_configuration_of_the_plan_is_set(render):
    text = render()
    assert 'ENV VLLM_PLUGINS="fl"\nWORKDIR /workspace\nENTRYPOINT ["vllm", "serve"]\nCMD ["--help"]\n' in text
    assert 'LABEL org.opencontainers.image.title="demo release"\n' in text


def test_shells_change_no_folder_and_stop_at_a_failing_pipe(render):
    text = render()
    assert not re.search(r"\bcd\b", text)
    assert 'SHELL ["/bin/bash", "-euo", "pipefail", "-c"]' in text
    assert not any("|" in run for run in instructions(text, "RUN"))


def test_B74_templates_with_crlf_give_lf(stages, tmp_path):
    for path in TEMPLATES.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    text = render_dockerfile(stages(), tmp_path)
    assert "\r" not in text
    assert text == render_dockerfile(stages(), TEMPLATES)


def test_the_same_plans_give_the_same_text(plan, render):
    assert render(plan(), plan("ci")) == render(plan(), plan("ci"))


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("fl", '"fl"'),
        ("a b", '"a b"'),
        ("$HOME", '"\\$HOME"'),
        ('say "x"', '"say \\"x\\""'),
        ("\\n", '"\\\\n"'),
    ],
)
def test_values_are_quoted_so_that_nothing_in_them_is_expanded(value, written):
    assert quote(value) == written


def test_a_missing_template_is_named(stages, tmp_path):
    shutil.copy(TEMPLATES / "Dockerfile.j2", tmp_path)
    with pytest.raises(UsageError, match=r"has no install\.j2"):
        render_dockerfile(stages(), tmp_path)


def test_a_template_that_asks_for_what_is_not_there_is_an_error(stages, tmp_path):
    (tmp_path / "Dockerfile.j2").write_text("FROM {{ plan.bse }}\n")
    with pytest.raises(UsageError, match="is wrong") as caught:
        render_dockerfile(stages(), tmp_path)
    assert "bse" in str(caught.value)


def test_running_python_leaves_no_byte_code_of_its_own_in_the_base(render):
    _, _, images = render().partition("FROM root AS base")
    assert "python3" not in " ".join(instructions(images, "RUN"))
