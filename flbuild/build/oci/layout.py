"""OCI image layouts: a folder that any OCI tool can read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flbuild.build.model import Blob, BuiltImage
from flbuild.build.oci.config import canonical_json
from flbuild.errors import HostError, UsageError, VerificationError
from flbuild.files import link_or_copy, sha256_file, unnamed_folder

INDEX = "application/vnd.oci.image.index.v1+json"
LAYOUT = b'{"imageLayoutVersion":"1.0.0"}'
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")

REF_NAME = "org.opencontainers.image.ref.name"


def write_layout(image: BuiltImage, folder: Path, tag: str, fetch: Callable[[Blob, Path], None]) -> None:
    """Write `image` as an OCI layout to `folder`, all of it or nothing.

    Args:
        tag: the name it gets in the index.
        fetch: writes a layer that has no local file to a path.

    Raises:
        UsageError: `folder` holds something else than a layout.
    """
    folder = folder.absolute()
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file; a layout is a folder", remedy="name a new or an empty folder")
    if folder.exists() and any(folder.iterdir()) and not (folder / "oci-layout").is_file():
        raise UsageError(
            f"{folder} holds files that are no OCI layout", remedy="name a new or an empty folder"
        )
    try:
        with unnamed_folder(folder.parent, folder.name) as workplace:
            complete = workplace / "layout"
            _write(image, complete, tag, fetch)
            if folder.exists():
                folder.rename(workplace / "old")
            complete.rename(folder)
    except OSError as error:
        raise HostError(f"{folder} could not be written", cause=str(error)) from error


def read_layout(folder: Path) -> BuiltImage:
    """The one image of a layout; manifest and config are verified, layers only by size.

    Raises:
        UsageError: it is no layout.
        VerificationError: a file does not have the digest it is named by, or is missing.
    """
    try:
        index = json.loads((folder / "index.json").read_bytes())
        (descriptor,) = index["manifests"]
        digest, media_type = descriptor["digest"], descriptor["mediaType"]
        _name(digest)
    except FileNotFoundError:
        raise UsageError(f"{folder} is no OCI layout: it has no index.json") from None
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{folder}/index.json does not name exactly one image", cause=str(error)) from error
    manifest = _read(folder, digest)
    try:
        content = json.loads(manifest)
        config = _read(folder, content["config"]["digest"])
        diff_ids = json.loads(config)["rootfs"]["diff_ids"]
        layers = tuple(
            _blob(folder, layer, diff_id) for layer, diff_id in zip(content["layers"], diff_ids, strict=True)
        )
    except (ValueError, KeyError, TypeError) as error:
        raise VerificationError(
            f"{folder}: {digest} is no manifest of one image with its config", cause=repr(error)
        ) from error
    return BuiltImage(
        manifest=manifest,
        manifest_digest=digest,
        manifest_media_type=media_type,
        config=config,
        config_digest=content["config"]["digest"],
        layers=layers,
        base_reference=None,
    )


def _write(image: BuiltImage, folder: Path, tag: str, fetch: Callable[[Blob, Path], None]) -> None:
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    for layer in image.layers:
        target = blobs / _name(layer.digest)
        if target.exists():
            continue
        if layer.path is None:
            fetch(layer, target)
        else:
            link_or_copy(layer.path, target)
    (blobs / _name(image.config_digest)).write_bytes(image.config)
    (blobs / _name(image.manifest_digest)).write_bytes(image.manifest)
    (folder / "oci-layout").write_bytes(LAYOUT)
    (folder / "index.json").write_bytes(_index(image, tag))


def _index(image: BuiltImage, tag: str) -> bytes:
    config = json.loads(image.config)
    platform = {"architecture": config["architecture"], "os": config["os"]}
    if "variant" in config:
        platform["variant"] = config["variant"]
    descriptor = {
        "mediaType": image.manifest_media_type,
        "digest": image.manifest_digest,
        "size": len(image.manifest),
        "platform": platform,
        "annotations": {REF_NAME: tag},
    }
    return canonical_json({"schemaVersion": 2, "mediaType": INDEX, "manifests": [descriptor]})


def _read(folder: Path, digest: str) -> bytes:
    path = folder / "blobs" / "sha256" / _name(digest)
    try:
        found = f"sha256:{sha256_file(path)}"
    except FileNotFoundError:
        raise VerificationError(f"{folder} lacks {digest}", remedy="build the image again") from None
    if found != digest:
        raise VerificationError(
            f"{path} is not what its name says\n  named: {digest}\n  found: {found}",
            remedy="build the image again",
        )
    return path.read_bytes()


def _blob(folder: Path, descriptor: dict[str, Any], diff_id: str) -> Blob:
    path = folder / "blobs" / "sha256" / _name(descriptor["digest"])
    if not path.is_file() or path.stat().st_size != descriptor["size"]:
        raise VerificationError(
            f"{folder}: layer {descriptor['digest']} is missing or has another size",
            remedy="build the image again",
        )
    return Blob(
        descriptor["digest"], descriptor["size"], descriptor["mediaType"], diff_id, path, from_base=False
    )


def _name(digest: str) -> str:
    """The file of a blob; a digest that is none must not become a path."""
    if not _DIGEST.fullmatch(digest):
        raise ValueError(f"'{digest}' is not a SHA-256 digest")
    return digest.removeprefix("sha256:")
