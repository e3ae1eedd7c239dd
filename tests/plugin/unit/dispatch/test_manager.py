"""Resolution, fallback and failure memory of the manager."""

from __future__ import annotations

import logging
import multiprocessing
import os
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from vllm_fl.dispatch import agreement
from vllm_fl.dispatch.manager import OpManager
from vllm_fl.dispatch.policy import Policy, policy_context
from vllm_fl.dispatch.registry import OpRegistry
from vllm_fl.dispatch.types import DispatchUnsupported, OpImpl

FLOAT = torch.ones(2)
HALF = torch.ones(2, dtype=torch.bfloat16)


class Fake:
    """An implementation that raises what it is told to, and counts its calls."""

    def __init__(self, answer: Any, error: Exception | None = None) -> None:
        self.answer = answer
        self.error = error
        self.calls = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.calls += 1
        if self.error is not None:
            raise self.error
        return self.answer


def impl(kind: str, fn: Callable[..., Any], op: str = "op", **facts: Any) -> OpImpl:
    ids = {"flagos": "default.flagos", "vendor": "vendor.acme", "reference": "reference.torch"}
    return OpImpl(op, ids[kind], kind, fn, vendor="acme" if kind == "vendor" else None, **facts)


def manager(*impls: OpImpl, **options: Any) -> OpManager:
    registry = OpRegistry()
    registry.register_many(impls)
    return OpManager(registry, **options)


def test_first_available_implementation_runs_and_the_rest_stay_untouched() -> None:
    first, second = Fake("flagos"), Fake("reference")
    m = manager(impl("reference", second), impl("flagos", first))
    assert m.call("op", FLOAT) == "flagos"
    assert (first.calls, second.calls) == (1, 0)
    assert m.get_selected_impl_id("op") == "default.flagos"
    assert m.resolve("op") is first
    assert [i.impl_id for i in m.resolve_candidates("op")] == ["default.flagos", "reference.torch"]


def test_an_unknown_operator_is_reported_with_what_is_registered() -> None:
    m = manager(impl("vendor", Fake(1)), policy=Policy(deny_vendors=frozenset({"acme"})))
    with pytest.raises(
        RuntimeError, match=r"No available implementation for op='op'. Registered: \['vendor.acme'\]"
    ):
        m.call("op")
    with pytest.raises(RuntimeError, match=r"op='other'. Registered: \[\]"):
        m.bind("other")()


def test_a_failing_availability_check_means_unavailable_and_is_reported_once(
    caplog_vllm: pytest.LogCaptureFixture,
) -> None:
    broken = Fake("broken")
    broken._is_available = Fake(None, OSError("no driver"))  # type: ignore[attr-defined]
    absent = Fake("absent")
    absent._is_available = lambda: False  # type: ignore[attr-defined]
    m = manager(impl("flagos", broken), impl("vendor", absent), impl("reference", Fake("reference")))
    assert m.call("op") == "reference"
    m.policy = Policy(prefer="vendor")
    assert m.call("op") == "reference"
    (record,) = [r for r in caplog_vllm.records if r.levelno == logging.WARNING]
    assert record.getMessage() == "default.flagos of 'op' is left out: OSError: no driver"


def test_device_capability_is_required_where_an_implementation_names_one() -> None:
    impls = (impl("flagos", Fake("flagos"), min_arch=(9, 0)), impl("reference", Fake("reference")))
    assert manager(*impls, arch=lambda: (9, 0)).call("op") == "flagos"
    assert manager(*impls, arch=lambda: (8, 6)).call("op") == "reference"
    assert manager(*impls).call("op") == "reference"


def test_calls_follow_the_dtypes_an_implementation_takes() -> None:
    m = manager(
        impl("flagos", Fake("flagos"), supported_dtypes=frozenset({"bfloat16"})),
        impl("reference", Fake("reference"), supported_dtypes=frozenset({"bfloat16", "float32"})),
    )
    op = m.bind("op")
    assert [op(HALF), op(FLOAT), op(x=HALF), op("no tensor")] == ["flagos", "reference", "flagos", "flagos"]
    with pytest.raises(RuntimeError, match="No implementation of op='op' takes int64"):
        op(torch.ones(1, dtype=torch.int64))


# The six faults of the usual design: each test fails when its fault comes back.


def test_fault_a_resolution_happens_once_however_often_an_operator_is_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sorted_orders: list[str] = []
    order = Policy.order

    def counted(self: Policy, op_name: str, impls: Any) -> Any:
        sorted_orders.append(op_name)
        return order(self, op_name, impls)

    monkeypatch.setattr(Policy, "order", counted)
    failing = Fake(None, NotImplementedError("never"))
    m = manager(impl("flagos", failing), impl("reference", Fake("reference")))
    op = m.bind("op")
    op(FLOAT)
    resolved = len(sorted_orders)
    op(FLOAT)
    resolved_after_fallback = len(sorted_orders)
    assert [op(FLOAT) for _ in range(100)] == ["reference"] * 100
    assert resolved > 0
    assert len(sorted_orders) == resolved_after_fallback
    assert failing.calls == 1


def test_fault_a_a_manager_that_was_never_changed_keeps_its_plans_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    m = manager(impl("reference", Fake("reference")))
    op = m.bind("op")
    op()
    monkeypatch.setattr(m, "_plan", lambda name: pytest.fail("resolved again"))
    assert op() == "reference"


def test_an_implementation_that_failed_gets_the_call_when_nothing_else_may_take_it() -> None:
    fake = Fake("flagos", NotImplementedError("no kernel"))
    m = manager(impl("flagos", fake), impl("reference", Fake("reference")))
    m.call("op", FLOAT)
    fake.error = None
    with policy_context(Policy(per_op=(("op", ("flagos",)),))):
        assert m.call("op", FLOAT) == "flagos"


@pytest.mark.parametrize("error", [ValueError("bad shape"), TypeError("bad type"), RuntimeError("bad luck")])
def test_fault_b_a_wrong_argument_neither_falls_back_nor_poisons_the_operator(error: Exception) -> None:
    picky, reference = Fake("flagos", error), Fake("reference")
    m = manager(impl("flagos", picky), impl("reference", reference))
    with pytest.raises(type(error), match="bad"):
        m.call("op", FLOAT)
    assert reference.calls == 0
    picky.error = None
    assert m.call("op", FLOAT) == "flagos"
    assert m.get_failed_impls() == {}


def test_fault_b_nothing_is_remembered_when_everything_failed() -> None:
    fakes = [Fake("flagos", AttributeError("weight")), Fake("reference", AttributeError("weight"))]
    m = manager(impl("flagos", fakes[0]), impl("reference", fakes[1]))
    with pytest.raises(
        RuntimeError, match=r"All 2 implementation\(s\) failed for op='op'.*Last error: .*weight"
    ) as e:
        m.call("op", FLOAT)
    assert isinstance(e.value.__cause__, AttributeError)
    for fake in fakes:
        fake.error = None
    assert m.call("op", FLOAT) == "flagos"


def test_fault_b_failures_are_remembered_per_dtype() -> None:
    def only_float(x: torch.Tensor) -> str:
        if x.dtype != torch.float32:
            raise NotImplementedError(x.dtype)
        return "flagos"

    m = manager(impl("flagos", only_float), impl("reference", Fake("reference")))
    op = m.bind("op")
    assert [op(HALF), op(FLOAT), op(HALF)] == ["reference", "flagos", "reference"]
    assert list(m.get_failed_impls()) == [("op", "default.flagos", "bfloat16")]
    assert m.get_selected_impl_id("op", "bfloat16") == "reference.torch"


@pytest.mark.parametrize("error", [NotImplementedError("late"), ImportError("late"), AttributeError("late")])
def test_fault_c_an_operator_that_changed_its_arguments_is_not_tried_again_elsewhere(
    error: Exception,
) -> None:
    def doubles_then_fails(x: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        raise error

    x = torch.ones(3)
    m = manager(
        impl("flagos", doubles_then_fails, may_mutate=True),
        impl("reference", lambda x: x.mul_(2), may_mutate=True),
    )
    with pytest.raises(type(error), match="late"):
        m.call("op", x)
    assert x.tolist() == [2, 2, 2]
    assert m.get_failed_impls() == {}


def test_fault_c_an_in_place_operator_may_decline_before_it_starts() -> None:
    x = torch.ones(3)
    m = manager(
        impl("flagos", Fake(None, DispatchUnsupported("head size 80")), may_mutate=True),
        impl("reference", lambda x: x.mul_(2), may_mutate=True),
    )
    assert m.call("op", x).tolist() == [2, 2, 2]


def chained(cause: Exception) -> Exception:
    error = NotImplementedError("no kernel")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("HBM"),
        MemoryError(),
        RuntimeError("ACL error 507015: aicore exception"),
        RuntimeError("vector core exception, error code 507035"),
        RuntimeError("CUDA error: an illegal memory access was encountered"),
        chained(torch.OutOfMemoryError("HBM")),
        chained(RuntimeError("507015")),
        NotImplementedError("CUDA error: device-side assert triggered"),
    ],
)
def test_fault_d_exhausted_memory_and_dead_devices_are_final(error: Exception) -> None:
    reference = Fake("reference")
    m = manager(impl("flagos", Fake(None, error)), impl("reference", reference))
    with pytest.raises(type(error)) as caught:
        m.call("op", FLOAT)
    assert caught.value is error
    assert reference.calls == 0


def test_fault_f_ranks_fall_back_alike_and_never_alone_after_they_agreed(
    caplog_vllm: pytest.LogCaptureFixture,
) -> None:
    def rank_of(number: int, error: Exception | None) -> tuple[OpManager, Fake]:
        fake = Fake("flagos", error)
        return manager(impl("flagos", fake), impl("reference", Fake("reference")), rank=number), fake

    (first, _), (second, fake) = rank_of(0, NotImplementedError("no kernel")), rank_of(1, None)
    assert [first.call("op", FLOAT), second.call("op", FLOAT)] == ["reference", "flagos"]

    agree(first, second)
    assert [first.call("op", FLOAT), second.call("op", FLOAT)] == ["reference", "reference"]
    assert "rank 0: op='op' falls back from default.flagos to reference.torch for float32" in caplog_vllm.text

    fake.error = NotImplementedError("no kernel")
    with pytest.raises(
        RuntimeError, match=r"failed on rank 1 after all ranks agreed.*VLLM_FL_PER_OP='op=reference'"
    ):
        second.call("op", HALF)


def test_declining_a_call_by_its_shape_is_no_failure() -> None:
    def only_128(x: torch.Tensor) -> str:
        if x.shape[-1] != 128:
            raise DispatchUnsupported(f"head size {x.shape[-1]}")
        return "vendor"

    ranks = [manager(impl("vendor", only_128), impl("reference", Fake("reference"))) for _ in range(2)]
    agree(*ranks)
    for m in ranks:
        op = m.bind("op")
        assert [op(torch.ones(size)) for size in (64, 128, 64, 0, 128)] == [
            "reference",
            "vendor",
            "reference",
            "reference",
            "vendor",
        ]
        assert m.get_failed_impls() == {}


def agree(*managers: OpManager) -> None:
    """Run the collective: every manager on a thread, as ranks would."""
    barrier = threading.Barrier(len(managers), timeout=10)
    reports: dict[int, Any] = {}
    errors: list[Exception] = []

    def run(position: int) -> None:
        def gather(report: Any) -> list[Any]:
            reports[position] = report
            barrier.wait()
            return [reports[i] for i in range(len(managers))]

        try:
            agreement.agree(managers[position], gather)
        except RuntimeError as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(managers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        assert len(errors) == len(managers), "some ranks would wait forever"
        raise errors[0]


def test_what_one_rank_lacks_no_rank_uses() -> None:
    absent = Fake("flagos")
    absent._is_available = lambda: False  # type: ignore[attr-defined]
    first = manager(impl("flagos", absent), impl("reference", Fake("reference")))
    second = manager(impl("flagos", Fake("flagos")), impl("reference", Fake("reference")))
    agree(first, second)
    assert [first.call("op"), second.call("op")] == ["reference", "reference"]


def test_ranks_with_different_policies_are_refused_on_every_rank() -> None:
    first = manager(impl("reference", Fake(1)))
    second = manager(impl("reference", Fake(1)), policy=Policy(prefer="vendor"))
    with pytest.raises(RuntimeError, match="different dispatch policies"):
        agree(first, second)


def test_a_single_rank_keeps_its_freedom() -> None:
    fake = Fake("flagos")
    m = manager(impl("flagos", fake), impl("reference", Fake("reference")))
    agree(m)
    fake.error = NotImplementedError()
    assert m.call("op", FLOAT) == "reference"


# Field reports.


def test_B8_a_missing_attribute_falls_back_once_and_names_rank_and_operator(
    caplog_vllm: pytest.LogCaptureFixture,
) -> None:
    fake = Fake(None, AttributeError("module 'flag_gems' has no attribute 'topk'"))
    m = manager(impl("flagos", fake), impl("reference", Fake("reference")), rank=3)
    assert [m.call("op", FLOAT) for _ in range(3)] == ["reference"] * 3
    assert fake.calls == 1
    (record,) = [r for r in caplog_vllm.records if r.levelno == logging.WARNING]
    message = record.getMessage()
    assert message.startswith("rank 3: op='op' falls back from default.flagos to reference.torch for float32")
    assert "VLLM_FL_PER_OP='op=reference'" in message


def test_B81_strict_means_that_the_first_error_is_raised() -> None:
    error = NotImplementedError("first")
    reference = Fake("reference")
    impls = (impl("flagos", Fake(None, error)), impl("reference", reference))
    with pytest.raises(NotImplementedError, match="first"):
        manager(*impls, policy=Policy(strict=True)).call("op", FLOAT)
    assert reference.calls == 0
    assert manager(*impls, policy=Policy(strict=False)).call("op", FLOAT) == "reference"


def test_kernels_that_do_not_compile_fall_back() -> None:
    triton_errors = type("MLIRCompilationError", (Exception,), {"__module__": "triton.compiler.errors"})
    other = type("MLIRCompilationError", (Exception,), {"__module__": "acme"})
    for error in (triton_errors("line 3"), RuntimeError("PassManager::run failed")):
        m = manager(impl("flagos", Fake(None, error)), impl("reference", Fake("reference")))
        assert m.call("op", FLOAT) == "reference"
    with pytest.raises(other):
        manager(impl("flagos", Fake(None, other())), impl("reference", Fake(1))).call("op", FLOAT)


def test_failures_can_be_forgotten() -> None:
    fake = Fake("flagos", NotImplementedError())
    m = manager(impl("flagos", fake), impl("reference", Fake("reference")))
    m.call("op", FLOAT)
    fake.error = None
    m.clear_failed_impls("another op")
    assert m.call("op", FLOAT) == "reference"
    m.clear_failed_impls("op")
    assert m.call("op", FLOAT) == "flagos"


def test_each_implementation_in_use_is_announced_once() -> None:
    used: list[str] = []
    m = manager(
        impl("flagos", Fake("flagos", NotImplementedError())),
        impl("reference", Fake("reference")),
        selected=lambda chosen: used.append(chosen.impl_id),
    )
    for _ in range(3):
        m.call("op", FLOAT)
    m.policy = Policy(prefer="reference")
    m.call("op", FLOAT)
    assert used == ["default.flagos", "reference.torch"]


# Invalidation, threads, processes.


def test_policies_and_registrations_take_effect_in_bound_operators() -> None:
    m = manager(impl("reference", Fake("reference")))
    op = m.bind("op")
    assert op() == "reference"
    m.registry.register_impl(impl("vendor", Fake("vendor")))
    assert op() == "vendor"
    with policy_context(Policy(prefer="reference")):
        assert op() == "reference"
        assert m.call("op") == "reference"
    assert op() == "vendor"
    before = m.epoch
    m.policy = Policy(prefer="reference")
    assert m.epoch > before
    assert op() == "reference"
    m.instrument(lambda chosen, fn: lambda: f"<{fn()}>")
    assert op() == "<reference>"
    m.instrument(None)
    assert op() == "reference"


def test_configuration_happens_before_the_first_resolution_and_again_after_an_error() -> None:
    attempts: list[int] = []

    def configure(m: OpManager) -> None:
        attempts.append(1)
        if len(attempts) == 1:
            raise ValueError("bad policy file")
        m.registry.register_impl(impl("reference", Fake("reference")))
        m.registry.register_impl(impl("vendor", Fake("vendor")))
        m.policy = Policy(prefer="vendor")

    m = OpManager(configure=configure)
    op = m.bind("op")
    assert not attempts
    with pytest.raises(ValueError, match="bad policy file"):
        op()
    assert [op(), op(), len(attempts)] == ["vendor", "vendor", 2]


def test_eight_threads_resolve_while_the_policy_changes() -> None:
    m = manager(*(impl(kind, Fake(kind)) for kind in ("flagos", "vendor", "reference")))
    op, stop, wrong = m.bind("op"), threading.Event(), []

    def work(own: str | None) -> None:
        while not stop.is_set():
            if own is None:
                answer, expected = op(), {"flagos", "vendor", "reference"}
            else:
                with policy_context(Policy(prefer=own)):
                    answer, expected = op(), {own}
            if answer not in expected:
                wrong.append((own, answer))

    kinds = [None, "flagos", "vendor", "reference"] * 2
    threads = [threading.Thread(target=work, args=(kind,)) for kind in kinds]
    for thread in threads:
        thread.start()
    for turn in range(300):
        preferred = ("flagos", "vendor", "reference")[turn % 3]
        m.policy = Policy(prefer=preferred)
        assert op() == preferred
        m.registry.register_impl(impl("reference", Fake(0), op=f"other{turn}"))
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_resolves_although_another_thread_held_the_locks() -> None:
    m = manager(impl("reference", Fake("reference")))
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with m._lock, m.registry._lock:
            held.set()
            release.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(10)
    pid = os.fork()
    if pid == 0:
        m.registry.register_impl(impl("vendor", Fake("vendor")))
        os._exit(0 if m.call("op") == "vendor" else 1)
    release.set()
    thread.join()
    assert wait_for(pid) == 0
    assert m.call("op") == "reference"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_drops_plans_that_a_change_was_about_to_drop() -> None:
    m = manager(impl("reference", Fake("reference")), impl("vendor", Fake("vendor")))
    assert m.call("op") == "vendor"
    m._policy = Policy(prefer="reference")  # a setter that was interrupted here
    pid = os.fork()
    if pid == 0:
        os._exit(0 if m.call("op") == "reference" else 1)
    assert wait_for(pid) == 0


def wait_for(pid: int) -> int:
    for _ in range(200):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        threading.Event().wait(0.05)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    raise AssertionError("the child hangs")


def _spawned(queue: Any) -> None:
    fake = Fake(None, NotImplementedError())
    m = manager(impl("flagos", fake), impl("reference", Fake("reference")))
    queue.put((m.call("op", FLOAT), m.policy.fingerprint(), m.get_failed_impls()))


def test_a_spawned_child_decides_as_its_parent_does() -> None:
    context = multiprocessing.get_context("spawn")
    queue = context.SimpleQueue()
    process = context.Process(target=_spawned, args=(queue,))
    process.start()
    child = queue.get()
    process.join(30)

    class Here:
        def put(self, value: Any) -> None:
            self.value = value

    here = Here()
    _spawned(here)
    assert child == here.value
