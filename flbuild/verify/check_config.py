"""Manifest and config: digests, types, platform, labels, environment, and no secrets in any of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from flbuild.files import sha256_bytes
from flbuild.finding import Finding
from flbuild.lock.model import LockedDebianBase, LockedImageBase
from flbuild.registry.media_types import DOCKER_MANIFEST
from flbuild.verify.context import Verification

_PREFIX = "org.opencontainers.image"

_SECRETS = (
    (re.compile(r"://[^/\s:@]+:[^/\s@]+@"), "a URL with a password"),
    (
        re.compile(r"(?i)(?:password|passwd|secret|token|api_?key)\s*[=:]\s*[^\s\"',]{6,}"),
        "a password or token",
    ),
    (re.compile(r"AKIA[0-9A-Z]{16}"), "an AWS access key"),
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----"), "a private key"),
    (re.compile(r"\bgh[pousr]_[A-Za-z0-9]{30,}"), "a GitHub token"),
)


def layers(verification: Verification) -> Iterator[Finding]:
    """Digests and diff_ids of the layers that were read, the config's digest, and the base below them."""
    subject = verification.subject
    for problem in verification.view.problems:
        yield _error("layers", subject.name, problem, "build or push the image again")
    stated = str(subject.content.get("config", {}).get("digest"))
    found = f"sha256:{sha256_bytes(subject.config)}"
    if stated != found:
        yield _error("layers", subject.name, f"the manifest names config {stated}, its bytes are {found}")
    base = verification.locked.base
    if base is None:
        return
    wanted = [base.layer] if isinstance(base, LockedDebianBase) else list(base.layers)
    for index, layer in enumerate(wanted):
        got = subject.layers[index].diff_id if index < len(subject.layers) else "missing"
        if got != layer.diff_id:
            yield _error(
                "layers",
                f"layer {index}",
                f"it is not the locked base's: {got} instead of {layer.diff_id}",
                "build on the locked base, or lock the base again",
            )


def media_types(verification: Verification) -> Iterator[Finding]:
    """Types that engines refuse to combine: zstd layers have no place in a Docker schema 2 manifest."""
    subject = verification.subject
    for index, layer in enumerate(subject.layers):
        if "zstd" in layer.media_type and subject.media_type == DOCKER_MANIFEST:
            yield _error(
                "media-types",
                f"layer {index}",
                f"{layer.media_type} in a manifest of type {DOCKER_MANIFEST}, which podman and others refuse",
                "push it with an OCI manifest, or compress it with gzip",
            )


def platform(verification: Verification) -> Iterator[Finding]:
    """The config's platform is the recipe's: the wrong one only shows as `exec format error` when it runs."""
    settings = verification.subject.settings
    found = f"{settings.get('os')}/{settings.get('architecture')}"
    if found != verification.recipe.platform:
        yield _error(
            "platform",
            verification.subject.name,
            f"the image is for {found}, the recipe for {verification.recipe.platform}",
            "verify the image of the other platform, or correct the recipe",
        )


def output(verification: Verification) -> Iterator[Finding]:
    """The image is one that the lock records."""
    subject, recorded = verification.subject, verification.output
    if recorded is None:
        yield _error(
            "output",
            subject.name,
            f"images.lock records no image {subject.manifest_digest}",
            f"build it with flbuild image {verification.recipe.name}, which records what it makes",
        )
    elif recorded.manifest != subject.manifest_digest:
        yield Finding(
            "warning",
            "output",
            subject.name,
            f"its content is the locked one's, its manifest is {subject.manifest_digest} instead of "
            f"{recorded.manifest}",
            "a tool or registry converted the manifest; pin the digest of what is used",
        )


def labels(verification: Verification) -> Iterator[Finding]:
    """Revision, version and creation time are those of the recorded plugin commit."""
    found, recorded = verification.subject.labels, verification.output
    if recorded is not None:
        wanted = {
            "revision": recorded.revision,
            "version": recorded.plugin.version,
            "created": recorded.created,
        }
        for key, value in wanted.items():
            got = found.get(f"{_PREFIX}.{key}", "")
            if got != value:
                yield _error("labels", f"{_PREFIX}.{key}", f"it is '{got}', the lock says '{value}'")
        if verification.subject.settings.get("created") != recorded.created:
            yield _error("labels", "created", "the config's creation time is not the commit's")
    base = verification.locked.base
    if isinstance(base, LockedImageBase) and found.get(f"{_PREFIX}.base.digest") != base.digest:
        yield _error("labels", f"{_PREFIX}.base.digest", f"it is not the locked base's, {base.digest}")


def environment(verification: Verification) -> Iterator[Finding]:
    """The recipe's variables are set, and nothing redirects imports."""
    found = verification.subject.env
    for name, value in verification.recipe.env.items():
        if found.get(name) != value:
            yield _error("environment", name, f"it is '{found.get(name, '')}', the recipe says '{value}'")
    for name in ("PYTHONPATH", "PYTHONHOME"):
        if name in found and name not in verification.recipe.env:
            yield _error(
                "environment",
                name,
                f"it is set to '{found[name]}', so imports may not come from the locked packages",
                "take it out of the base, or declare it in the recipe",
            )


def secrets(verification: Verification) -> Iterator[Finding]:
    """History, environment and labels hold nothing that looks like a credential."""
    settings = verification.subject.settings
    places = {f"env {name}": f"{name}={value}" for name, value in verification.subject.env.items()}
    places |= {f"label {name}": value for name, value in verification.subject.labels.items()}
    for index, entry in enumerate(settings.get("history") or ()):
        places[f"history {index}"] = json.dumps(entry)
    for place, text in places.items():
        for pattern, what in _SECRETS:
            if pattern.search(text):
                yield _error("secrets", place, f"it holds {what}", "rotate the credential; build without it")


def _error(check: str, subject: str, message: str, remedy: str | None = None) -> Finding:
    return Finding("error", check, subject, message, remedy)
