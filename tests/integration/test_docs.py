"""Every flbuild command that README and docs show is run, in a clone, on the real inputs."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from checkout import REPOSITORY, Checkout
from cpu_image import CpuImage
from docker_engine import Engine

from flbuild.lock.io import update_lock
from flbuild.lock.model import Lock

PAGES = (REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md")))

SHOWN = re.compile(r"`(flbuild [^`]+)`|^(?:\$|   ) (flbuild [^#\n\[]+)(?:#.*)?$", re.MULTILINE)

UNRESOLVED = 3
UNREACHABLE = 10
UNPUBLISHED = 2

STATUS = {
    # Unresolved inputs of ascend and cuda are looked for again, and no test may reach their hosts.
    "flbuild lock": UNREACHABLE,
    "flbuild lock --allow-kind-change": UNREACHABLE,
    "flbuild lock --dry-run": UNREACHABLE,
    "flbuild lock --offline": UNREACHABLE,
    "flbuild lock --refresh-base": UNREACHABLE,
    "flbuild lock --upgrade PKG": UNREACHABLE,
    "flbuild lock ascend cuda": UNREACHABLE,
    "flbuild lock cpu ascend": UNREACHABLE,
    "flbuild image ascend": UNRESOLVED,
    "flbuild image cuda": UNRESOLVED,
    # Nothing is published from a fresh clone.
    "flbuild verify digest": UNPUBLISHED,
}
"""Exit codes other than 0, by command as the pages show it."""


def shown_commands() -> list[str]:
    """The commands of all pages, each once."""
    found = [
        (span or line).strip()
        for page in PAGES
        for span, line in SHOWN.findall(page.read_text(encoding="utf-8"))
    ]
    return sorted({command for command in found if "|" not in command})


@pytest.fixture(scope="module")
def project(cpu_image: CpuImage, tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """A clone that holds the built image where the pages say it is."""
    clone = cpu_image.checkout.clone(tmp_path_factory.mktemp("docs") / "project")
    # Other tests of this session may have published from the same lock, to registries of their own.
    update_lock(clone.root / "images.lock", _without_published)
    (clone.root / "build").mkdir()
    (clone.root / "build" / "cpu").symlink_to(cpu_image.layout)
    return clone


def _without_published(lock: Lock) -> Lock:
    images = {
        name: image.model_copy(
            update={"outputs": tuple(output for output in image.outputs if output.reference is None)}
        )
        for name, image in lock.images.items()
    }
    return lock.model_copy(update={"images": images})


@pytest.fixture(scope="module")
def lock(project: Checkout) -> bytes:
    """The lock that the image was built from."""
    return (project.root / "images.lock").read_bytes()


@pytest.fixture(scope="module")
def wheel(project: Checkout, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some wheel, for commands that take one."""
    folder = tmp_path_factory.mktemp("wheel")
    return Path(project.flbuild("wheel", "plugin", "--output", str(folder)).stdout.strip())


def test_the_pages_show_commands() -> None:
    assert len(shown_commands()) > 20
    assert set(STATUS) <= set(shown_commands())


@pytest.mark.parametrize("command", shown_commands())
def test_a_shown_command_does_what_the_page_says(
    command: str, project: Checkout, lock: bytes, wheel: Path, engine: Engine, tmp_path: Path
) -> None:
    places = {
        "DIR": str(tmp_path / "out"),
        "FILE": str(wheel),
        "NAME": "vllm-empty" if " wheel " in command else "cpu",
        "PKG": "regex",
        "REF": "oci:build/cpu",
        "REV": "HEAD",
        "oci:build/cpu": f"oci:{tmp_path / 'image'}" if "--output" in command else "oci:build/cpu",
    }
    words = [places.get(word, word) for word in shlex.split(command)[1:]]
    # Commands that lock again would leave another base to those that verify the image, where Debian's archive
    # has moved on meanwhile.
    (project.root / "images.lock").write_bytes(lock)
    project.flbuild(*words, status=STATUS.get(command, 0), DOCKER_HOST=engine.address)
