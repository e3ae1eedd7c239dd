"""Wheels without content: they tell the resolver what a distribution needs, and are never installed."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZipFile

from packaging.utils import canonicalize_name


@dataclass(frozen=True)
class Fixed:
    """A distribution whose version is settled before the resolver runs.

    It comes from a named index, is built from source, or is carried by the base.
    """

    name: str
    version: str
    metadata: bytes

    @classmethod
    def without_requirements(cls, name: str, version: str) -> Fixed:
        """A distribution of which nothing but its version is known."""
        return cls(name, version, f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode())


def write_stub(folder: Path, fixed: Fixed) -> Path:
    """A wheel with the metadata of `fixed`, for any platform."""
    stem = f"{re.sub(r'[-_.]+', '_', canonicalize_name(fixed.name))}-{fixed.version}"
    info = f"{stem}.dist-info"
    content = {
        f"{info}/METADATA": fixed.metadata,
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},sha256={_hash(data)},{len(data)}\n" for name, data in content.items())
    path = folder / f"{stem}-py3-none-any.whl"
    with ZipFile(path, "w") as archive:
        for name, data in {**content, f"{info}/RECORD": f"{record}{info}/RECORD,,\n".encode()}.items():
            archive.writestr(name, data)
    return path


def _hash(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
