from __future__ import annotations

import pytest

TOKEN = "x" * 36


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("RUN pip install -i https://user:hunter2@example.org/simple x", "a URL with a password"),
        (f"RUN git clone https://{TOKEN}@example.org/x", "a URL with a token"),
        ("ARG HF_TOKEN=abcdefghijk", "a password or token"),
        ('RUN PASSWORD="correct-horse" deploy', "a password or token"),
        ("ENV API_KEY: 0123456789", "a password or token"),
        ("ENV KEY=AKIAABCDEFGHIJKLMNOP", "an AWS access key"),
        (f"RUN echo ghp_{TOKEN}", "a GitHub token"),
        (f"RUN echo hf_{TOKEN}", "a Hugging Face token"),
        ("RUN echo -----BEGIN RSA PRIVATE KEY-----", "a private key"),
    ],
)
def test_credentials_in_the_history_are_found(case, text, what):
    case.history = [{"created_by": "fine"}, {"created_by": text}]
    assert case.errors("secrets") == [f"history 1: it holds {what}"]


def test_credentials_in_environment_and_labels_are_found(case):
    case.env += ["REGISTRY_PASSWORD=correct-horse"]
    case.labels["build.url"] = "https://ci:secret@example.org/1"
    assert [error.partition(":")[0] for error in case.errors("secrets")] == [
        "env REGISTRY_PASSWORD",
        "label build.url",
    ]


def test_what_only_sounds_like_a_credential_is_let_pass(case):
    case.env += ["TOKENIZERS_PARALLELISM=false", "HOMEPAGE=https://example.org:8443/a@b"]
    case.history = [{"created_by": "flbuild wheels dependencies", "comment": "tokenizers, secretstorage"}]
    assert case.findings("secrets") == []


def test_the_address_of_a_proxy_is_a_warning(case):
    case.history = [{"created_by": "|1 http_proxy=http://proxy.corp:3128 /bin/sh -c make"}]
    (finding,) = case.findings("secrets")
    assert (finding.severity, finding.subject) == ("warning", "history 0")
