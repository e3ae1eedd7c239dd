"""The image config and manifest, as canonical JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from flbuild.build.model import Blob
from flbuild.plan.model import Plan, PlannedLayer

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_OF_THE_BASE_BUILD = ("container", "container_config", "docker_version", "id", "parent", "throwaway")
"""What engines note in a config about the container that made it; the OCI specification has none of it."""

_DOCKER_TO_OCI = {
    "application/vnd.docker.image.rootfs.diff.tar": "application/vnd.oci.image.layer.v1.tar",
    "application/vnd.docker.image.rootfs.diff.tar.gzip": "application/vnd.oci.image.layer.v1.tar+gzip",
    "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip": (
        "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip"
    ),
}


def canonical_json(value: Any) -> bytes:
    """One spelling for one value: sorted keys, no spaces, UTF-8."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def oci_media_type(media_type: str) -> str:
    """A layer's type as the OCI specification calls it; one it does not know stays as it is."""
    return _DOCKER_TO_OCI.get(media_type, media_type)


def fresh_config(plan: Plan) -> dict[str, Any]:
    """The config of a base that was made here."""
    return {"architecture": plan.architecture, "os": plan.os, "config": {"Env": [f"PATH={_PATH}"]}}


def make_config(
    base: dict[str, Any], plan: Plan, blobs: Sequence[Blob], history: Sequence[dict[str, Any]]
) -> bytes:
    """The config of the image: the base's, changed by the plan.

    Args:
        base: the base's config; what it says and the plan does not stays.
        blobs: every layer, the base's first.
        history: the entries of the layers above the base, in order.
    """
    config = {key: value for key, value in base.items() if key not in _OF_THE_BASE_BUILD}
    runtime = dict(config.get("config") or {})
    env = dict(item.partition("=")[::2] for item in runtime.get("Env") or ())
    env.update(plan.config.env)
    runtime["Env"] = [f"{name}={value}" for name, value in env.items()]
    runtime["Labels"] = {**(runtime.get("Labels") or {}), **dict(plan.config.labels)}
    if plan.config.entrypoint:
        runtime["Entrypoint"] = list(plan.config.entrypoint)
    if plan.config.cmd:
        runtime["Cmd"] = list(plan.config.cmd)
    if plan.config.workdir:
        runtime["WorkingDir"] = plan.config.workdir
    config["config"] = runtime
    config["created"] = plan.config.created
    config["rootfs"] = {"type": "layers", "diff_ids": [blob.diff_id for blob in blobs]}
    config["history"] = [*(base.get("history") or ()), *history]
    return canonical_json(config)


def built_config(config: dict[str, Any], plan: Plan) -> bytes:
    """The config that an engine made, without what it notes about its containers, dated as the plan is."""
    kept = {key: value for key, value in config.items() if key not in _OF_THE_BASE_BUILD}
    return canonical_json({**kept, "created": plan.config.created})


def history_entry(layer: PlannedLayer, created: str) -> dict[str, Any]:
    """What `docker history` shows of a layer: its reason, and no command, since none ran."""
    return {"created": created, "created_by": f"flbuild {layer.kind} {layer.id}", "comment": layer.reason}


def make_manifest(config: bytes, config_digest: str, blobs: Sequence[Blob]) -> bytes:
    """The image manifest (OCI image specification, "Image Manifest")."""
    return canonical_json(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": {"mediaType": CONFIG, "digest": config_digest, "size": len(config)},
            "layers": [
                {"mediaType": blob.media_type, "digest": blob.digest, "size": blob.size} for blob in blobs
            ],
        }
    )
