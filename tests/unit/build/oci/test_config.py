from __future__ import annotations

import json

import pytest

from flbuild.build.model import Blob
from flbuild.build.oci.config import fresh_config, make_config, make_manifest, oci_media_type
from flbuild.plan.model import PlannedConfig

BLOB = Blob("sha256:1", 10, "application/vnd.oci.image.layer.v1.tar+gzip", "sha256:2", None, True)


@pytest.fixture
def configured(wheels):
    def run(base, **changes):
        config = PlannedConfig(**{"created": "2026-01-01T00:00:00Z", **changes})
        return json.loads(make_config(base, wheels.plan(config=config), [BLOB], [{"comment": "new"}]))

    return run


BASE = {
    "architecture": "amd64",
    "os": "linux",
    "variant": "v8",
    "created": "2020-01-01T00:00:00Z",
    "docker_version": "20.10",
    "container": "abc",
    "container_config": {"Hostname": "builder-7"},
    "config": {
        "Env": ["PATH=/usr/bin", "LANG=C", "EMPTY=", "OPTS=a=b"],
        "Labels": {"maintainer": "x", "org.opencontainers.image.version": "old"},
        "Entrypoint": ["/entry"],
        "Cmd": ["bash"],
        "WorkingDir": "/workspace",
        "Healthcheck": {"Test": ["NONE"]},
    },
    "rootfs": {"type": "layers", "diff_ids": ["sha256:0"]},
    "history": [{"comment": "old"}],
}


def test_what_the_base_says_stays_unless_the_plan_says_otherwise(configured):
    made = configured(BASE)
    assert made["config"]["Entrypoint"] == ["/entry"]
    assert made["config"]["Cmd"] == ["bash"]
    assert made["config"]["WorkingDir"] == "/workspace"
    assert made["config"]["Healthcheck"] == {"Test": ["NONE"]}
    assert made["variant"] == "v8"
    made = configured(BASE, entrypoint=("/mine",), cmd=("serve",), workdir="/w")
    assert made["config"]["Entrypoint"] == ["/mine"]
    assert made["config"]["Cmd"] == ["serve"]
    assert made["config"]["WorkingDir"] == "/w"


def test_variables_and_labels_are_merged(configured):
    made = configured(
        BASE,
        env=(("LANG", "C.UTF-8"), ("VLLM_PLUGINS", "fl")),
        labels=(("org.opencontainers.image.version", "new"),),
    )
    assert made["config"]["Env"] == ["PATH=/usr/bin", "LANG=C.UTF-8", "EMPTY=", "OPTS=a=b", "VLLM_PLUGINS=fl"]
    assert made["config"]["Labels"] == {"maintainer": "x", "org.opencontainers.image.version": "new"}


def test_nothing_of_the_machine_that_built_the_base_is_kept(configured):
    assert not {"docker_version", "container", "container_config"} & configured(BASE).keys()


def test_history_and_layers_are_those_of_the_result(configured):
    made = configured(BASE)
    assert made["history"] == [{"comment": "old"}, {"comment": "new"}]
    assert made["rootfs"] == {"type": "layers", "diff_ids": ["sha256:2"]}
    assert made["created"] == "2026-01-01T00:00:00Z"


def test_one_config_has_one_spelling(wheels):
    def backwards(value):
        return (
            {key: backwards(item) for key, item in reversed(value.items())}
            if isinstance(value, dict)
            else value
        )

    plan = wheels.plan()
    assert make_config(BASE, plan, [BLOB], []) == make_config(backwards(BASE), plan, [BLOB], [])


def test_a_base_without_any_configuration_is_enough(configured, wheels):
    made = configured(fresh_config(wheels.plan()))
    assert made["config"]["Env"][0].startswith("PATH=")
    assert (made["architecture"], made["os"]) == ("amd64", "linux")
    assert configured({"architecture": "amd64", "os": "linux", "config": None})["config"]["Env"] == []


@pytest.mark.parametrize(
    ("docker", "oci"),
    [
        ("application/vnd.docker.image.rootfs.diff.tar.gzip", "application/vnd.oci.image.layer.v1.tar+gzip"),
        ("application/vnd.docker.image.rootfs.diff.tar", "application/vnd.oci.image.layer.v1.tar"),
        ("application/vnd.oci.image.layer.v1.tar+zstd", "application/vnd.oci.image.layer.v1.tar+zstd"),
        ("application/vnd.example.layer.v9", "application/vnd.example.layer.v9"),
    ],
)
def test_layer_types_get_their_oci_name_and_unknown_ones_pass(docker, oci):
    """dotnet/sdk#52244: a base whose layer type was not known could not be used at all."""
    assert oci_media_type(docker) == oci


def test_a_manifest_names_config_and_layers():
    made = json.loads(make_manifest(b"{}", "sha256:c", [BLOB]))
    assert made["schemaVersion"] == 2
    assert made["config"] == {
        "mediaType": "application/vnd.oci.image.config.v1+json",
        "digest": "sha256:c",
        "size": 2,
    }
    assert made["layers"] == [{"mediaType": BLOB.media_type, "digest": "sha256:1", "size": 10}]
