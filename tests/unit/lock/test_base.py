from __future__ import annotations

import pytest

from flbuild.errors import HostError, UnreachableError
from flbuild.lock.base import lock_base
from flbuild.lock.bases import Bases
from flbuild.progress import Silent
from flbuild.recipe.load import load_recipe


def test_a_base_that_cannot_be_refreshed_is_not_lost(demo):
    recipe = load_recipe(demo.recipe_path)
    base = lock_base(recipe, None, demo.bases).base
    demo.bases.reachable = False
    with pytest.raises(UnreachableError):
        lock_base(recipe, base, demo.bases, refresh=True)
    assert lock_base(recipe, base, demo.bases).base == base


def test_a_base_that_was_never_seen_is_marked_as_missing(demo):
    demo.bases.reachable = False
    result = lock_base(load_recipe(demo.recipe_path), None, demo.bases)
    assert result.base is None
    assert (result.missing.entry.name, result.missing.entry.version) == ("debian", "bookworm")


def test_offline_no_base_is_looked_at(demo):
    bases = Bases(demo.settings, Silent(), offline=True)
    with pytest.raises(HostError, match="--offline"):
        bases.lock(load_recipe(demo.recipe_path))
