"""Orders, filters, fingerprints and contexts of policies."""

from __future__ import annotations

import contextlib
import contextvars
import subprocess
import sys
import threading
from dataclasses import FrozenInstanceError

import pytest
from vllm_fl.dispatch.policy import Policy, override, policy_context
from vllm_fl.dispatch.types import OpImpl


def impl(impl_id: str, kind: str, vendor: str | None = None, priority: int | None = None) -> OpImpl:
    return OpImpl("op", impl_id, kind, print, vendor=vendor, priority=priority)


IMPLS = (
    impl("reference.torch", "reference"),
    impl("vendor.cuda", "vendor", "cuda"),
    impl("vendor.cuda.fast", "vendor", "cuda", priority=200),
    impl("vendor.acme", "vendor", "acme"),
    impl("default.flagos", "flagos"),
)


def order(policy: Policy) -> list[str]:
    return [chosen.impl_id for chosen in policy.order("op", IMPLS)]


VENDORS = ["vendor.cuda.fast", "vendor.cuda", "vendor.acme"]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (Policy(), ["default.flagos", *VENDORS, "reference.torch"]),
        (Policy(prefer="vendor"), [*VENDORS, "default.flagos", "reference.torch"]),
        (Policy(prefer="reference"), ["reference.torch", "default.flagos", *VENDORS]),
        (Policy(per_op=(("op", ("reference", "vendor:acme")),)), ["reference.torch", "vendor.acme"]),
        (
            Policy(per_op=(("op", ("impl:vendor.cuda", "vendor")),)),
            ["vendor.cuda", "vendor.cuda.fast", "vendor.acme"],
        ),
        (Policy(per_op=(("other", ("reference",)),)), ["default.flagos", *VENDORS, "reference.torch"]),
        (Policy(allow_vendors=frozenset({"acme"})), ["default.flagos", "vendor.acme", "reference.torch"]),
        (
            Policy(allow_vendors=frozenset({"acme", "cuda"}), deny_vendors=frozenset({"cuda"})),
            ["default.flagos", "vendor.acme", "reference.torch"],
        ),
        (Policy(allow_vendors=frozenset()), ["default.flagos", "reference.torch"]),
        (Policy(per_op=(("op", ("impl:nobody",)),)), []),
    ],
)
def test_order(policy: Policy, expected: list[str]) -> None:
    assert order(policy) == expected
    assert [chosen.impl_id for chosen in policy.order("op", IMPLS[::-1])] == expected


def test_equal_policies_have_equal_fingerprints_in_any_process() -> None:
    one = Policy(per_op=(("a", ("vendor",)), ("b", ("flagos",))), deny_vendors=frozenset({"x", "y"}))
    same = Policy(per_op=(("b", ("flagos",)), ("a", ("vendor",))), deny_vendors=frozenset({"y", "x"}))
    assert one == same
    assert hash(one) == hash(same)
    assert one.fingerprint() == same.fingerprint()
    code = (
        "from vllm_fl.dispatch.policy import Policy; "
        "orders = (('b', ('flagos',)), ('a', ('vendor',))); "
        "print(Policy(per_op=orders, deny_vendors=frozenset({'y', 'x'})).fingerprint())"
    )
    environment = {"PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": "7"}
    child = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    assert child.stdout.strip() == one.fingerprint()


def test_every_part_of_a_policy_is_in_its_fingerprint() -> None:
    policies = [
        Policy(),
        Policy(prefer="vendor"),
        Policy(strict=True),
        Policy(per_op=(("a", ("vendor",)),)),
        Policy(per_op=(("a", ("vendor", "flagos")),)),
        Policy(allow_vendors=frozenset()),
        Policy(allow_vendors=frozenset({"a"})),
        Policy(deny_vendors=frozenset({"a"})),
    ]
    assert len({policy.fingerprint() for policy in policies}) == len(policies)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"prefer": "gems"}, "prefer='gems'"),
        ({"per_op": (("op", ("fastest",)),)}, "op: 'fastest' names no backend"),
        ({"per_op": (("op", ("vendor:",)),)}, "'vendor:' names no backend"),
        ({"per_op": (("op", ("flagos:x",)),)}, "'flagos:x' names no backend"),
        ({"per_op": (("op", ("vendor",)), ("op", ("flagos",)))}, "names an operator twice"),
    ],
)
def test_malformed_policies_are_refused(arguments: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Policy(**arguments)  # type: ignore[arg-type]


def test_a_policy_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        Policy().strict = True  # type: ignore[misc]


def test_contexts_nest_and_end_with_an_error() -> None:
    outer, inner = Policy(prefer="vendor"), Policy(prefer="reference")
    with policy_context(outer):
        with contextlib.suppress(KeyError), policy_context(inner):
            assert override.get() is inner
            raise KeyError
        assert override.get() is outer
    assert override.get() is None


def test_contexts_stay_in_their_thread_and_travel_with_a_copied_context() -> None:
    seen: list[Policy | None] = []
    with policy_context(Policy(strict=True)) as policy:
        thread = threading.Thread(target=lambda: seen.append(override.get()))
        thread.start()
        thread.join()
        copied = contextvars.copy_context()
    assert seen == [None]
    assert copied.run(override.get) is policy
