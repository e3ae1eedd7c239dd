"""The registry of implementations."""

from __future__ import annotations

import threading

import pytest
from vllm_fl.dispatch.registry import OpRegistry
from vllm_fl.dispatch.types import Deferred, OpImpl


def impl(op: str = "op", impl_id: str = "reference.torch") -> OpImpl:
    return OpImpl(op, impl_id, "reference", print)


def test_an_id_may_be_taken_once_per_operator() -> None:
    registry = OpRegistry()
    registry.register_impl(impl())
    registry.register_impl(impl(op="other"))
    with pytest.raises(ValueError, match=r"'op' already has an implementation 'reference.torch'"):
        registry.register_impl(impl())


def test_many_are_registered_together_or_not_at_all() -> None:
    registry = OpRegistry()
    with pytest.raises(ValueError, match="already has"):
        registry.register_many([impl("a"), impl("b"), impl("a")])
    assert registry.list_operators() == []
    registry.register_many([impl("b"), impl("a")])
    assert registry.list_operators() == ["a", "b"]


def test_a_snapshot_does_not_change() -> None:
    registry = OpRegistry()
    registry.register_impl(impl("a"))
    before = registry.snapshot()
    registry.register_impl(impl("b"))
    assert list(before) == ["a"]
    with pytest.raises(TypeError):
        before["c"] = ()  # type: ignore[index]
    registry.clear()
    assert registry.get_implementations("a") == ()
    assert registry.get_implementation("a", "reference.torch") is None


def test_listeners_hear_of_every_change() -> None:
    registry, heard = OpRegistry(), []
    registry.subscribe(lambda: heard.append(len(registry.list_operators())))
    registry.register_impl(impl("a"))
    registry.register_many([impl("b"), impl("c")])
    registry.clear()
    assert heard == [1, 3, 0]


def test_threads_may_register_at_once() -> None:
    registry = OpRegistry()

    def register(thread: int) -> None:
        for number in range(50):
            registry.register_impl(impl("op", f"{thread}.{number}"))

    threads = [threading.Thread(target=register, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(registry.get_implementations("op")) == 400


@pytest.mark.parametrize(
    ("facts", "complaint"),
    [
        ({"kind": "magic"}, "unknown kind 'magic'"),
        ({"kind": "vendor"}, "a vendor is named"),
        ({"vendor": "x"}, "a vendor"),
    ],
)
def test_contradictory_implementations_are_refused(facts: dict[str, str], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        OpImpl(**{"op_name": "op", "impl_id": "i", "kind": "reference", "fn": print, **facts})  # type: ignore[arg-type]


def test_a_deferred_function_is_imported_when_it_is_loaded() -> None:
    function = Deferred("json:dumps")
    assert function._is_available()
    assert OpImpl("op", "i", "reference", function).load() is __import__("json").dumps
    assert function({"a": 1}) == '{"a": 1}'
    with pytest.raises(AttributeError):
        Deferred("json:nothing")._is_available()
    with pytest.raises(ModuleNotFoundError):
        Deferred("no_such_module:x")._is_available()
    assert not Deferred("no_such_module:x", condition=lambda: False)._is_available()
