from __future__ import annotations

import pytest

from flbuild.errors import UsageError
from flbuild.registry.reference import Reference

HEX = "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("debian", "docker.io/library/debian"),
        ("debian:12", "docker.io/library/debian:12"),
        ("vllm/vllm-openai:v0.28.0", "docker.io/vllm/vllm-openai:v0.28.0"),
        ("docker.io/debian:12", "docker.io/library/debian:12"),
        ("index.docker.io/library/debian:12", "docker.io/library/debian:12"),
        ("localhost/x:1", "localhost/x:1"),
        ("localhost:5000/x:1", "localhost:5000/x:1"),
        ("127.0.0.1:5000/a/b__c/d.e-f:T_1.2-x", "127.0.0.1:5000/a/b__c/d.e-f:T_1.2-x"),
        ("[::1]:5000/x:1", "[::1]:5000/x:1"),
        ("quay.io/ascend/vllm-ascend:v0.20.2rc1-a3", "quay.io/ascend/vllm-ascend:v0.20.2rc1-a3"),
        (f"quay.io/a/b@sha256:{HEX}", f"quay.io/a/b@sha256:{HEX}"),
        (f"quay.io/a/b:1@sha256:{HEX}", f"quay.io/a/b:1@sha256:{HEX}"),
    ],
)
def test_a_reference_is_read_and_written_in_full(text: str, full: str) -> None:
    assert str(Reference.parse(text)) == full
    assert Reference.parse(full) == Reference.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Upper/case:1",
        "quay.io/a/b:",
        "quay.io/a//b:1",
        "quay.io/a/-b:1",
        "quay.io/a/b:-tag",
        f"quay.io/a/b:{'t' * 129}",
        "quay.io/a/b@sha256:abc",
        f"quay.io/a/b@sha256:{HEX.upper()}",
        f"quay.io/a/b@md5:{HEX}",
        "https://quay.io/a/b:1",
        "quay.io/a/b:1\n",
        "quay.io/" + "a/" * 127 + "bb:1",
    ],
)
def test_what_is_no_reference_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not an image reference"):
        Reference.parse(text)


def test_the_digest_wins_over_the_tag() -> None:
    assert Reference.parse("quay.io/a/b:1").target == "1"
    assert Reference.parse(f"quay.io/a/b:1@sha256:{HEX}").target == f"sha256:{HEX}"


def test_a_bare_repository_names_no_image() -> None:
    with pytest.raises(UsageError, match="names no image"):
        _ = Reference.parse("quay.io/a/b").target


def test_at_gives_the_same_repository_by_digest() -> None:
    assert str(Reference.parse("quay.io/a/b:1").at(f"sha256:{HEX}")) == f"quay.io/a/b@sha256:{HEX}"
