"""The process's manager: configured from files and environment, and followed by bound operators."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from vllm_fl import dispatch
from vllm_fl.dispatch import default
from vllm_fl.dispatch.manager import OpManager
from vllm_fl.dispatch.settings import load_settings
from vllm_fl.dispatch.types import OpImpl


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., OpManager]]:
    """Restart the process's manager under given variables."""

    def restart(**variables: str) -> OpManager:
        dispatch.reset_default_manager(load_settings({"VLLM_FL_PLATFORM": "cpu", **variables}))
        return dispatch.get_default_manager()

    yield restart
    monkeypatch.undo()
    dispatch.reset_default_manager()


def test_layers_may_bind_before_anything_is_configured(fresh: Callable[..., OpManager]) -> None:
    silu_and_mul = dispatch.bind("silu_and_mul")
    fresh()
    x = torch.randn(2, 6)
    torch.testing.assert_close(silu_and_mul(None, x), torch.nn.functional.silu(x[:, :3]) * x[:, 3:])
    assert torch.equal(dispatch.call_op("silu_and_mul", None, x), silu_and_mul(None, x))
    assert dispatch.resolve_op("silu_and_mul")(None, x).shape == (2, 3)


def test_first_use_configures_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, fresh: Callable[..., OpManager]
) -> None:
    monkeypatch.setenv("VLLM_FL_PLATFORM", "cpu")
    monkeypatch.setenv("VLLM_FL_PER_OP", "moe_sum=reference")
    manager = OpManager(configure=default._configure_from_environment)
    op = manager.bind("moe_sum")
    assert manager.registry.list_operators() == []
    output = torch.empty(1, 2)
    op(torch.ones(1, 3, 2), output)
    assert output.tolist() == [[3, 3]]
    assert manager.policy.per_op == (("moe_sum", ("reference",)),)


def test_an_external_backend_takes_over_where_the_policy_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh: Callable[..., OpManager]
) -> None:
    (tmp_path / "acme_ops.py").write_text(
        "from vllm_fl.dispatch.types import OpImpl\n"
        "def register(registry):\n"
        "    registry.register_impl(OpImpl('silu_and_mul', 'vendor.acme', 'vendor', lambda obj, x: 'acme',"
        " vendor='acme'))\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    fresh(VLLM_FL_PLUGIN_MODULES="acme_ops", VLLM_FL_PER_OP="silu_and_mul=vendor:acme|reference")
    assert dispatch.call_op("silu_and_mul", None, torch.ones(1, 2)) == "acme"
    with dispatch.with_denied_vendors(["acme"]):
        assert dispatch.call_op("silu_and_mul", None, torch.ones(1, 2)).shape == (1, 1)
    with dispatch.with_allowed_vendors(["other"]):
        assert dispatch.get_default_manager().get_selected_impl_id("silu_and_mul") == "reference.torch"


def test_contexts_change_one_thing_of_the_policy_in_force(fresh: Callable[..., OpManager]) -> None:
    manager = fresh(VLLM_FL_DENY_VENDORS="cuda", VLLM_FL_PER_OP="moe_sum=reference")
    base = manager.policy
    with dispatch.with_strict_mode() as strict:
        assert (strict.strict, strict.prefer, strict.per_op) == (True, base.prefer, base.per_op)
        with dispatch.with_preference("vendor") as inner:
            assert (inner.strict, inner.prefer) == (True, "vendor")
        with dispatch.with_denied_vendors(["acme"]) as denied:
            assert denied.deny_vendors == {"cuda", "acme"}
        with dispatch.with_allowed_vendors(["acme"]) as allowed:
            assert allowed.allow_vendors == {"acme"}
        assert manager.active_policy() is strict
    assert manager.active_policy() is base


def test_names_that_mean_nothing_are_pointed_out(
    fresh: Callable[..., OpManager], caplog_vllm: pytest.LogCaptureFixture
) -> None:
    fresh(VLLM_FL_ALLOW_VENDORS="nvidia,acme", VLLM_FL_PER_OP="rms_nrom=reference")
    assert "The vendor lists name 'acme', which is none of ascend, cuda" in caplog_vllm.text
    assert (
        "orders operator 'rms_nrom', which does not exist; perhaps you meant 'rms_norm'" in caplog_vllm.text
    )
    assert "'nvidia'" not in caplog_vllm.text


def test_starting_over_forgets_what_was_learned(fresh: Callable[..., OpManager]) -> None:
    manager = fresh()

    def missing(*args: Any) -> None:
        raise NotImplementedError

    manager.registry.register_impl(OpImpl("silu_and_mul", "other.flagos", "flagos", missing))
    with dispatch.with_preference("flagos"):
        dispatch.call_op("silu_and_mul", None, torch.ones(1, 2))
    assert manager.get_failed_impls()
    assert fresh() is manager
    assert manager.get_failed_impls() == {}
    assert manager.registry.get_implementation("silu_and_mul", "other.flagos") is None


def _child(path: list[str], queue: Any) -> None:
    sys.path[:] = path
    manager = dispatch.get_default_manager()
    queue.put((manager.get_selected_impl_id("rms_norm"), manager.policy.fingerprint()))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_child_decides_as_its_parent(
    method: str, monkeypatch: pytest.MonkeyPatch, fresh: Callable[..., OpManager]
) -> None:
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {method} here")
    monkeypatch.setenv("VLLM_FL_PLATFORM", "cpu")
    monkeypatch.setenv("VLLM_FL_DENY_VENDORS", "cuda")
    manager = fresh(VLLM_FL_DENY_VENDORS="cuda")
    context = multiprocessing.get_context(method)
    queue = context.SimpleQueue()
    process = context.Process(target=_child, args=(sys.path, queue))
    process.start()
    result = queue.get()
    process.join(30)
    assert result == (manager.get_selected_impl_id("rms_norm"), manager.policy.fingerprint())
