from __future__ import annotations

import pytest

from flbuild.recipe.hygiene import check_architecture, check_secrets


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HF_TOKEN", "x"),
        ("INDEX_PASSWORD", "x"),
        ("AWS_SECRET_ACCESS_KEY", "x"),
        ("OPENAI_API_KEY", "x"),
        ("HTTP_PROXY", "http://user:pass@proxy.example:3128"),
        ("URL", "https://x.example/y?token=abcdef"),
        ("ANYTHING", "hf_abcdefghijklmnopqrstuvwx"),
        ("ANYTHING", "AKIAABCDEFGHIJKLMNOP"),
        ("ANYTHING", "-----BEGIN RSA PRIVATE KEY-----"),
    ],
)
def test_a_credential_is_an_error_that_does_not_repeat_it(make, name, value):
    git = {"name": "a", "version": "1", "git": "https://x.example/y", "commit": "a" * 40}
    for recipe, key in (
        (make(env={name: value}), f"env.{name}"),
        (make(ci={"env": {name: value}}), f"ci.env.{name}"),
        (make(packages=[{**git, "build_env": {name: value}}]), f"packages[0].build_env.{name}"),
    ):
        (finding,) = check_secrets(recipe)
        assert (finding.severity, finding.subject) == ("error", key)
        assert len(value) == 1 or value not in f"{finding.message} {finding.remedy}"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("VLLM_PLUGINS", "fl"),
        ("TOKENIZERS_PARALLELISM", "false"),
        ("MAX_TOKENS", "4096"),
        ("AUTHOR", "x"),
        ("HF_ENDPOINT", "https://mirror.example/path?x=1"),
    ],
)
def test_other_variables_are_no_secrets(make, name, value):
    assert list(check_secrets(make(env={name: value}))) == []


@pytest.mark.parametrize(
    ("platform", "word"),
    [
        ("linux/arm64", "x86_64"),
        ("linux/arm64", "amd64"),
        ("linux/amd64", "aarch64"),
        ("linux/amd64", "arm64"),
    ],
)
def test_b58_a_value_that_names_another_architecture_is_a_warning(make, platform, word):
    # prime-rl#1974: a variable for one architecture silently skipped an extension on the other
    recipe = make(
        platform=platform,
        env={"LD_LIBRARY_PATH": f"/usr/lib/{word}-linux-gnu"},
        base={"image": f"registry.example/base:v1-{word.replace('_', '-')}"},
        python={"version": "3.11", "site_packages": f"/opt/{word}/lib"},
    )
    findings = list(check_architecture(recipe))
    assert [finding.severity for finding in findings] == ["warning"] * 3
    assert [finding.subject for finding in findings] == [
        "env.LD_LIBRARY_PATH",
        "python.site_packages",
        "base.image",
    ]


def test_a_debian_base_has_no_reference_to_look_at(make):
    assert list(check_architecture(make(base={"debian": "bookworm"}))) == []


def test_the_recipes_own_architecture_may_be_named(make):
    recipe = make(env={"LD_LIBRARY_PATH": "/usr/lib/aarch64-linux-gnu", "X": "charm64bits"})
    assert list(check_architecture(recipe)) == []
