from __future__ import annotations

from pathlib import Path

import pytest

from flbuild.errors import LockStaleError, UsageError
from flbuild.lock.io import dump_lock, parse_lock
from flbuild.lock.model import Lock, LockedImage, LockedSource, SourceFile
from flbuild.wheel.locked import locked_source

FILE = SourceFile(index="pypi", filename="x.tar.gz", sha256="0" * 64, size=1)


def source(name, version, sha256="1" * 64):
    return LockedSource(
        name=name, version=version, source=FILE, filename=f"{name}.whl", sha256=sha256, size=1
    )


def lock(**images):
    entries = {
        name: LockedImage(
            recipe="sha256:" + "0" * 64, platform="linux/amd64", python="3.11", packages=(), sources=sources
        )
        for name, sources in images.items()
    }
    return Lock(images=entries)


VLLM = source("vllm", "0.28.0+empty")
GEMS = source("flag-gems", "5.0.2")


def test_a_source_is_found_by_the_name_of_its_wheel():
    found = lock(cpu=(VLLM,), ascend=(VLLM, GEMS))
    assert locked_source(found, "vllm-empty") == VLLM
    assert locked_source(found, "flag-gems") == GEMS


def test_images_that_differ_have_to_be_told_apart():
    newer = source("vllm", "0.29.0+empty")
    found = lock(cpu=(VLLM,), ascend=(newer,))
    with pytest.raises(UsageError, match=r"ascend: 0\.29\.0") as caught:
        locked_source(found, "vllm-empty")
    assert "--image" in caught.value.remedy
    assert locked_source(found, "vllm-empty", "ascend") == newer


def test_a_misspelled_source_is_answered_with_the_right_one():
    with pytest.raises(UsageError, match="perhaps you meant 'vllm-empty'"):
        locked_source(lock(cpu=(VLLM,)), "vllm-emty")


def test_a_lock_without_sources_or_without_the_image_is_stale():
    with pytest.raises(LockStaleError, match="no sources"):
        locked_source(lock(cpu=()), "vllm-empty")
    with pytest.raises(LockStaleError, match="no entry 'cuda'"):
        locked_source(lock(cpu=(VLLM,)), "vllm-empty", "cuda")


def test_nothing_is_built_from_pins_that_were_edited_by_hand():
    sealed = parse_lock(dump_lock(lock(cpu=(VLLM,))), Path("images.lock"))
    image = sealed.images["cpu"]
    edited = image.model_copy(update={"sources": (source("vllm", "0.28.1+empty"),)})
    with pytest.raises(LockStaleError, match="cpu: not as it was written"):
        locked_source(sealed.model_copy(update={"images": {"cpu": edited}}), "vllm-empty")
    with pytest.raises(LockStaleError, match="build_tools: not as it was written"):
        locked_source(sealed.model_copy(update={"build_tools_seal": image.seal}), "vllm-empty")
