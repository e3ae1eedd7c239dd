"""Manifests as a registry holds them: exact bytes, what kind they are, which image of an index fits."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flbuild.errors import RemoteGoneError, UnreachableError
from flbuild.registry.media_types import INDEXES, MANIFESTS, OCI_INDEX, OCI_MANIFEST
from flbuild.registry.reference import Reference

_COMMON_VARIANTS = {"amd64": ("", "v1"), "arm64": ("", "v8"), "arm": ("v7", "")}
"""The variants that run on every machine of an architecture, the best first (OCI image specification,
"Platform Variants", and the amd64 microarchitecture levels)."""


@dataclass(frozen=True)
class RemoteManifest:
    """A manifest exactly as a registry holds it; `digest` is the SHA-256 of `raw`."""

    reference: Reference
    raw: bytes
    digest: str
    media_type: str

    @property
    def content(self) -> dict[str, Any]:
        """The parsed manifest."""
        parsed: dict[str, Any] = json.loads(self.raw)
        return parsed

    @property
    def kind(self) -> str:
        """`index` or `image`."""
        return "index" if self.media_type in INDEXES else "image"


def read_manifest(reference: Reference, raw: bytes, digest: str, content_type: str) -> RemoteManifest:
    """Say what a manifest is: by its own word, else by the header, else by its shape.

    Raises:
        UnreachableError: it is no JSON object, so what answered is no registry.
        RemoteGoneError: it is in a form from before 2016 that has no digest of its own.
    """
    try:
        content = json.loads(raw)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise UnreachableError(
            f"{reference}: what answers is no registry",
            cause=f"a manifest is a JSON object, and {len(raw)} bytes came that are none",
            remedy="check the network, and the mirror and proxy settings in flbuild.toml",
        )
    if content.get("schemaVersion") == 1:
        raise RemoteGoneError(
            f"{reference} exists only as a schema 1 manifest, a form that registries have given up",
            remedy="push the image again with a current tool",
        )
    for stated in (content.get("mediaType"), content_type):
        if stated in INDEXES | MANIFESTS:
            return RemoteManifest(reference, raw, digest, str(stated))
    return RemoteManifest(reference, raw, digest, OCI_INDEX if "manifests" in content else OCI_MANIFEST)


def choose_image(index: RemoteManifest, platform: str) -> str:
    """The digest of the manifest for a platform (os/architecture[/variant]) in an index.

    Raises:
        RemoteGoneError: the index has none for it, or several of which none is the obvious one.
    """
    os_name, architecture, variant = (*platform.split("/"), "")[:3]
    wanted = [variant] if variant else _COMMON_VARIANTS.get(architecture, ("",))
    children = [child for child in index.content.get("manifests") or () if isinstance(child, dict)]
    for candidate in wanted:
        found = {
            str(child.get("digest"))
            for child in children
            if _platform(child) == (os_name, architecture, candidate)
        }
        if len(found) == 1:
            return found.pop()
        if found:
            raise _no_choice(index, platform, f"has {len(found)} images", children)
    raise _no_choice(index, platform, "has no image", children)


def _platform(child: dict[str, Any]) -> tuple[str, str, str]:
    platform = child.get("platform") or {}
    return platform.get("os", ""), platform.get("architecture", ""), platform.get("variant", "")


def _no_choice(
    index: RemoteManifest, platform: str, what: str, children: Sequence[dict[str, Any]]
) -> RemoteGoneError:
    # An attestation is listed with the platform unknown/unknown.
    offered = sorted(
        {"/".join(filter(None, _platform(child))) for child in children} - {"unknown/unknown", ""}
    )
    return RemoteGoneError(
        f"{index.reference} {what} for {platform}",
        cause=f"its index offers {', '.join(offered) or 'nothing'}",
        remedy="correct the platform in the recipe, or name another image",
    )
