"""Traced layers call one opaque operator each, with the result of the untraced ones. Rung 1."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from vllm_fl.dispatch import reset_default_manager

pytestmark = pytest.mark.usefixtures("vllm_config", "registered")


@pytest.fixture(autouse=True)
def _operators() -> Iterator[None]:
    reset_default_manager()
    yield
    reset_default_manager()


def traced(function: Callable[..., object], *arguments: torch.Tensor) -> tuple[object, list[str]]:
    """The result of the compiled function, and the operators in its graph."""
    seen: list[str] = []

    def backend(graph: torch.fx.GraphModule, example: object) -> Callable[..., object]:
        seen.extend(str(node.target) for node in graph.graph.nodes if node.op == "call_function")
        return graph.forward

    return torch.compile(function, backend=backend, fullgraph=True)(*arguments), seen


def opaque(seen: list[str]) -> list[str]:
    return [name for name in seen if "vllm_fl" in name]


def test_activations_are_one_call_each() -> None:
    from vllm.model_executor.layers.activation import GeluAndMul, SiluAndMul

    x = torch.randn(3, 16)
    for layer in (SiluAndMul(), GeluAndMul(approximate="tanh")):
        found, seen = traced(layer.forward_oot, x)
        assert torch.equal(found, layer.forward_oot(x))
        assert len(opaque(seen)) == 1


@pytest.mark.parametrize("neox", [True, False])
def test_a_traced_rotary_embedding_leaves_its_arguments_alone(neox: bool) -> None:
    from vllm.model_executor.layers.rotary_embedding import RotaryEmbedding

    layer = RotaryEmbedding(64, 64, 32, 10000.0, neox, torch.float32)
    positions, query, key = torch.tensor([0, 5, 31]), torch.randn(3, 4 * 64), torch.randn(3, 64)
    before = query.clone(), key.clone()
    found, seen = traced(layer.forward_oot, positions, query, key)
    assert torch.equal(query, before[0])
    assert torch.equal(key, before[1])
    wanted = layer.forward_oot(positions, query, key)
    assert all(map(torch.equal, found, wanted))
    assert len(opaque(seen)) == 1


def test_norms_are_one_call_each_and_write_into_nothing() -> None:
    from vllm_fl.ops import ir_kernels

    x, residual, weight = torch.randn(3, 16), torch.randn(3, 16), torch.randn(16)
    found, seen = traced(lambda x: ir_kernels.rms_norm.impl_fn(x, weight, 1e-6), x)
    assert torch.equal(found, ir_kernels.rms_norm.impl_fn(x, weight, 1e-6))
    assert len(opaque(seen)) == 1
    before = x.clone(), residual.clone()
    found, seen = traced(
        lambda x, residual: ir_kernels.fused_add_rms_norm.impl_fn(x, residual, weight, 1e-6), x, residual
    )
    assert (torch.equal(x, before[0]), torch.equal(residual, before[1])) == (True, True)
    assert all(map(torch.equal, found, ir_kernels.fused_add_rms_norm.impl_fn(x, residual, weight, 1e-6)))
    assert len(opaque(seen)) == 1


def test_vllms_lowering_takes_the_operator_for_the_norm() -> None:
    """It traces a provider with fake tensors and without dynamo."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx
    from vllm_fl.ops import ir_kernels

    with FakeTensorMode():
        x, weight = torch.empty(3, 16), torch.empty(16)
        graph = make_fx(lambda x, w: ir_kernels.rms_norm.func_impl_fn(x, w, 1e-6))(x, weight)
    names = [str(node.target) for node in graph.graph.nodes if node.op == "call_function"]
    assert names == ["vllm_fl.rms_norm.default"]
