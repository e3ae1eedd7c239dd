"""The cpu image as the tests see it, and the program that shows it works."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checkout import Checkout

IMPORTS = """
import json, torch, vllm, vllm_fl
from importlib.metadata import version
print(json.dumps({
    "torch": torch.__version__,
    "sum": float(torch.ones(3).sum()),
    **{name: version(name) for name in ("vllm", "vllm-plugin-fl")},
}))
"""


@dataclass(frozen=True)
class CpuImage:
    """A layout with one image, the checkout it was built from, and what `flbuild image --json` said."""

    layout: Path
    checkout: Checkout
    summary: dict[str, Any]

    @property
    def digest(self) -> str:
        """Of the manifest."""
        return str(self.summary["manifest"])

    @property
    def manifest(self) -> bytes:
        """As it is in the layout."""
        return self.blob(self.digest).read_bytes()

    @property
    def config(self) -> dict[str, Any]:
        """The image's config."""
        return dict(json.loads(self.blob(self.summary["config"]).read_bytes()))

    @property
    def tag(self) -> str:
        """The name in the layout's index."""
        index = json.loads((self.layout / "index.json").read_bytes())
        return str(index["manifests"][0]["annotations"]["org.opencontainers.image.ref.name"])

    @property
    def versions(self) -> dict[str, Any]:
        """What `IMPORTS` prints in a container of it."""
        return {
            "torch": "2.13.0+cpu",
            "sum": 3.0,
            "vllm": "0.28.0+empty",
            "vllm-plugin-fl": self.summary["plugin"]["version"],
        }

    def blob(self, digest: str) -> Path:
        """The file of a blob."""
        return self.layout / "blobs" / "sha256" / digest.removeprefix("sha256:")
