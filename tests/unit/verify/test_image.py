from __future__ import annotations

import pytest

from flbuild.errors import UsageError
from flbuild.lock.model import Lock
from flbuild.verify.image import match_image, platform_of


@pytest.fixture
def lock(case):
    """A lock that records the case's image under the recipe `demo`."""
    return Lock(images={"demo": case.verification().locked})


def without_outputs(lock):
    return Lock(
        images={name: image.model_copy(update={"outputs": ()}) for name, image in lock.images.items()}
    )


def test_an_image_is_known_by_its_digest(case, lock):
    match = match_image(case.verification().subject, lock)
    assert (match.recipe, match.target) == ("demo", "release")
    assert match.output is lock.images["demo"].outputs[0]


def test_B38_an_image_is_known_by_its_content_under_another_manifest(case, lock):
    entry = lock.images["demo"]
    changed = entry.outputs[0].model_copy(update={"manifest": "sha256:" + "9" * 64})
    other = Lock(images={"demo": entry.model_copy(update={"outputs": (changed,)})})
    assert match_image(case.verification().subject, other).output is changed


def test_an_image_that_is_not_recorded_is_known_by_its_title(case, lock):
    match = match_image(case.verification().subject, without_outputs(lock))
    assert (match.recipe, match.target, match.output) == ("demo", "release", None)


def test_a_title_that_says_nothing_asks_for_the_recipe(case, lock):
    case.labels.clear()
    subject = case.verification().subject
    with pytest.raises(UsageError, match="no image that images") as caught:
        match_image(subject, without_outputs(lock))
    assert "--recipe" in caught.value.remedy
    assert match_image(subject, without_outputs(lock), "demo", "ci").target == "ci"


def test_a_recipe_that_is_misspelled_is_an_error(case, lock):
    with pytest.raises(UsageError, match="perhaps you meant 'demo'"):
        match_image(case.verification().subject, without_outputs(lock), "dema")


def test_layers_of_a_locked_image_base_are_not_read(case, carried):
    case.image_base, case.inventory = True, (carried("pip"),)
    assert case.verification().view.read == [1, 2]


def test_layers_of_an_image_base_without_inventory_are_read(case):
    case.image_base = True
    assert case.verification().view.read == [0, 1, 2]


def test_a_debian_base_is_read_from_a_folder(case):
    assert case.verification().view.read == [0, 1, 2]


def test_the_platform_of_an_index_is_that_of_the_locked_image_or_of_the_named_recipe(lock):
    entry = lock.images["demo"]
    named = entry.outputs[0].model_copy(update={"reference": "example.org/demo:1"})
    known = Lock(images={"demo": entry.model_copy(update={"platform": "linux/arm64", "outputs": (named,)})})
    assert platform_of("example.org/demo:1", known) == "linux/arm64"
    assert platform_of(f"example.org/copy@{named.manifest}", known) == "linux/arm64"
    assert platform_of("example.org/demo:2", known) is None
    assert platform_of("example.org/demo:2", known, "demo") == "linux/arm64"
