from __future__ import annotations

from datetime import date, datetime

import pytest
from pydantic import TypeAdapter, ValidationError

from flbuild.recipe import types

DIGEST = "sha256:" + "a" * 64


def accepts(kind, value):
    try:
        TypeAdapter(kind).validate_python(value)
    except ValidationError:
        return False
    return True


GOOD = {
    types.AbsolutePath: ["/", "/usr/bin/python3", "/opt/..data", "/a b"],
    types.RelativePath: ["plugin", "python/plugin", "..plugin"],
    types.BaseReference: [
        "ubuntu:24.04",
        "quay.io/ascend/vllm-ascend:v0.20.2rc1-a3",
        "localhost:5000/a/b_c.d--e:V1_x",
        "docker.io/vllm/vllm-openai:v0.28.0-cu129",
    ],
    types.Repository: ["a", "registry.example:5000/team/image", "team/image"],
    types.TagTemplate: ["v1", "{vllm}", "{vllm}-a3", "a{target}{date}", "x" * 128, "x" * 127 + "{plugin}"],
    types.GitUrl: [
        "https://github.com/flagos-ai/FlagGems",
        "ssh://git@git.example/x",
        "git@git.example:team/x.git",
        "file:///srv/git/x",
    ],
    types.RequirementText: ["a", "a[b]>=1,<2", 'a; sys_platform == "never"'],
    types.PlainText: ["", "Grüße, 你好", "a  b"],
    types.Volume: ["/data:/data", "/a/b:/c:ro", "/a:/b:rw"],
    types.Device: ["/dev/davinci0"],
    types.DebianName: ["python3", "libstdc++6", "g++-12"],
    types.ModuleName: ["triton", "a.b_c"],
    types.NamePattern: ["triton", "nvidia-*", "cuda-1[0-2]", "A?"],
}

BAD = {
    types.AbsolutePath: ["", "a", "a/b", "//a", "/a//b", "/a/", "/a/../b", "/..", "/a\nb"],
    types.RelativePath: ["", "/a", "..", "../a", "a/../b", "a\tb"],
    types.BaseReference: [
        "",
        "ubuntu",
        "quay.io/a/b",
        "quay.io:443/a/b",
        f"quay.io/a/b@{DIGEST}",
        f"quay.io/a/b:v1@{DIGEST}",
        "quay.io/a/b:latest",
        "quay.io/a/b:",
        "quay.io/a/b:-v1",
        "quay.io/a/b:v 1",
        "quay.io/A/b:v1",
        "https://quay.io/a/b:v1",
        "quay.io/a/b:v1\nRUN x",
        ":v1",
    ],
    types.Repository: ["", "a:b", f"a@{DIGEST}", "A", "a//b", "https://x.example/a", "a "],
    types.TagTemplate: [
        "",
        "{}",
        "{vllm",
        "{day}",
        "{vllm!s}",
        "{vllm:>9}",
        "-a",
        "a b",
        "a/b",
        "{{a}}",
        "x" * 128 + "{plugin}",
    ],
    types.GitUrl: [
        "",
        "x",
        "-x",
        "--upload-pack=x",
        "https://u:p@x.example/y",
        "https://t@x.example/y",
        "https://x y",
        "ext::sh -c x",
    ],
    types.RequirementText: ["", "a b", "-r x", "a @ https://x.example/a.whl", "a>=1>2"],
    types.PlainText: ["a\nb", "a\x1bb", "\x7f"],
    types.Volume: ["data:/data", "/data", "/a:/b:xx", "/a:b"],
    types.Device: ["dev/x", "/dev/", "/tmp/x"],
    types.DebianName: ["--x", "X", "a", "a b", "a=1"],
    types.ModuleName: ["", "a-b", "1a", "a."],
    types.NamePattern: ["", "a b", "a;b"],
}


@pytest.mark.parametrize(
    ("kind", "value"), [(kind, value) for kind, values in GOOD.items() for value in values]
)
def test_accepted(kind, value):
    assert accepts(kind, value)


@pytest.mark.parametrize(
    ("kind", "value"), [(kind, value) for kind, values in BAD.items() for value in values]
)
def test_refused(kind, value):
    assert not accepts(kind, value)


def test_a_day_is_a_date_or_is_written_like_one():
    adapter = TypeAdapter(types.Day)
    assert (
        adapter.validate_python("2027-03-01") == adapter.validate_python(date(2027, 3, 1)) == date(2027, 3, 1)
    )
    for value in (datetime(2027, 3, 1), 20270301, "20270301", "2027-03-01T00:00", None, 1.5):
        assert not accepts(types.Day, value)
