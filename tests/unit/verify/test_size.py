from __future__ import annotations

import pytest

from flbuild.errors import VerificationError
from flbuild.verify.size import distributions, measure, require_within_budget


def measured(case, budget=None):
    verification = case.verification()
    return measure(verification.subject, verification.locked.base, budget)


@pytest.mark.parametrize("image_base", [True, False])
def test_layers_of_the_base_are_told_from_those_above(case, image_base):
    case.image_base = image_base
    sizes = measured(case)
    assert [layer.base for layer in sizes.layers] == [True, False, False]
    assert sizes.above == sum(layer.size for layer in sizes.layers[1:])
    assert sizes.total == sizes.above + sizes.layers[0].size


def test_a_budget_counts_what_is_above_the_base(case):
    above = measured(case).above
    require_within_budget(measured(case, above), "x")
    require_within_budget(measured(case), "x")
    with pytest.raises(VerificationError, match="1 more than its budget") as caught:
        require_within_budget(measured(case, above - 1), "x")
    assert caught.value.exit_code == 8


def test_distributions_are_weighed_by_their_record(case):
    case.add("heavy", "2", files={"heavy/data.bin": b"x" * 5000})
    found = list(distributions(case.verification().view))
    assert found[0][:2] == ("heavy", "2")
    assert 5000 < found[0][2] < 6000
    assert {name for name, _, _ in found} == {"heavy", "numpy", "torch", "vllm-plugin-fl"}
