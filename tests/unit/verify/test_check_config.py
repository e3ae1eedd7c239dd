from __future__ import annotations

from dataclasses import replace

from flbuild.verify.check_config import output


def test_B56_an_image_of_another_architecture_is_an_error(case):
    case.config["architecture"] = "arm64"
    (error,) = case.errors("platform")
    assert error.endswith("the image is for linux/arm64, the recipe for linux/amd64")


def test_an_image_that_the_lock_does_not_record_is_an_error(case):
    case.recorded = False
    (error,) = case.errors("output")
    assert "images.lock records no image sha256:" in error


def test_B38_converted_content_is_a_warning_that_names_both_digests(case):
    verification = case.verification()
    other = verification.output.model_copy(update={"manifest": "sha256:" + "8" * 64})
    (finding,) = output(replace(verification, output=other))
    assert finding.severity == "warning"
    assert verification.subject.manifest_digest in finding.message
    assert "8" * 64 in finding.message


def test_variables_of_the_recipe_are_required(case):
    case.env = ["VLLM_PLUGINS=other"]
    assert case.errors("environment") == ["VLLM_PLUGINS: it is 'other', the recipe says 'fl'"]
    case.env = []
    assert case.errors("environment") == ["VLLM_PLUGINS: it is not set; the recipe says 'fl'"]


def test_a_redirected_import_path_is_an_error_unless_the_recipe_wants_it(case):
    case.env += ["PYTHONPATH=/workspace/plugin"]
    (error,) = case.errors("environment")
    assert error.startswith("PYTHONPATH: it is set to '/workspace/plugin'")
    case.recipe["env"] = {"VLLM_PLUGINS": "fl", "PYTHONPATH": "/workspace/plugin"}
    assert case.errors("environment") == []
