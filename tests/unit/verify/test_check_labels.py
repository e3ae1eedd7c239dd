from __future__ import annotations

import pytest

PREFIX = "org.opencontainers.image."


@pytest.mark.parametrize("key", ["title", "version", "revision", "created"])
def test_b19_each_label_is_what_the_lock_says(case, key):
    case.labels[PREFIX + key] = "other"
    (error,) = case.errors("labels")
    assert error.startswith(f"{PREFIX}{key}: it is 'other', the lock says '")


def test_a_missing_label_is_an_error(case):
    del case.labels[PREFIX + "revision"]
    (error,) = case.errors("labels")
    assert error.startswith(f"{PREFIX}revision: it is missing")


def test_the_configs_own_time_is_the_commits(case):
    case.config["created"] = "2030-01-01T00:00:00Z"
    (error,) = case.errors("labels")
    assert error.startswith("created: the config says '2030-01-01T00:00:00Z'")


def test_labels_of_an_image_base_name_the_locked_one(case):
    case.image_base = True
    case.labels |= {PREFIX + "base.name": "quay.io/team/base:v1", PREFIX + "base.digest": "sha256:other"}
    (error,) = case.errors("labels")
    assert error.startswith(f"{PREFIX}base.digest: it is 'sha256:other'")


def test_an_image_that_is_not_recorded_is_held_to_its_title_only(case):
    case.recorded = False
    case.labels = {PREFIX + "title": "vllm-plugin-fl demo release"}
    assert case.errors("labels") == []
