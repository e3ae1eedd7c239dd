"""The mixture-of-experts method within vLLM's layer. Rung 1: against the experts called directly."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from vllm.model_executor.layers.fused_moe.activation import MoEActivation
from vllm_fl.ops.fused_moe.experts import run_experts
from vllm_fl.ops.fused_moe.layer import UnquantizedFusedMoEMethodFL

pytestmark = pytest.mark.usefixtures("vllm_config", "registered")

PARALLEL = ("enable_eplb", "use_ep", "dp_size", "all2all_backend")


def make_config(**changes: Any) -> Any:
    from vllm.model_executor.layers.fused_moe.config import (
        FusedMoEConfig,
        FusedMoEParallelConfig,
        RoutingMethodType,
    )

    parallel = {name: changes.pop(name) for name in PARALLEL if name in changes}
    return FusedMoEConfig(
        **{
            "num_experts": 4,
            "experts_per_token": 2,
            "hidden_dim": 16,
            "intermediate_size": 16,
            "num_local_experts": 4,
            "num_logical_experts": 4,
            "activation": MoEActivation.SILU,
            "device": "cpu",
            "routing_method": RoutingMethodType.Renormalize,
            "moe_parallel_config": replace(FusedMoEParallelConfig.make_no_parallel(), **parallel),
            "in_dtype": torch.float32,
            **changes,
        }
    )


class Layer(torch.nn.Module):
    """What the method reads of vLLM's layer."""

    layer_name = "model.layers.0.mlp.experts"
    activation = MoEActivation.SILU
    expert_map = None
    global_num_experts = 4

    def __init__(self, config: Any, *, top_k: int = 2, on_input: bool = False) -> None:
        super().__init__()
        self.moe_config = config
        self.top_k = top_k
        self.apply_router_weight_on_input = on_input

    def _expert_routing_tables(self) -> None:
        return None


def make_layer(**options: Any) -> tuple[Layer, Any]:
    config = make_config()
    layer, method = Layer(config, **options), UnquantizedFusedMoEMethodFL(config)
    method.create_weights(layer, 4, 16, 16, torch.float32)
    for weight in (layer.w13_weight, layer.w2_weight):
        weight.data.normal_(0, 0.3)
    method.process_weights_after_loading(layer)
    return layer, method


def apply(method: Any, layer: Layer, hidden: torch.Tensor, weights: torch.Tensor, ids: torch.Tensor) -> Any:
    from vllm.v1.worker.workspace import init_workspace_manager

    init_workspace_manager(torch.device("cpu"), 1)
    return method.apply(layer, hidden, weights, ids, None, None)


def test_vllm_builds_our_method_in_place_of_its_own() -> None:
    from vllm.model_executor.layers.fused_moe.unquantized_fused_moe_method import UnquantizedFusedMoEMethod

    assert type(UnquantizedFusedMoEMethod(make_config())) is UnquantizedFusedMoEMethodFL


@pytest.mark.parametrize("tokens", [1, 5])
def test_the_method_runs_the_experts(tokens: int) -> None:
    layer, method = make_layer()
    hidden, weights = torch.randn(tokens, 16), torch.rand(tokens, 2)
    ids = torch.randint(0, 4, (tokens, 2), dtype=torch.int32)
    wanted = run_experts(hidden, layer.w13_weight, layer.w2_weight, weights, ids, MoEActivation.SILU)
    assert torch.equal(apply(method, layer, hidden, weights, ids), wanted)


def test_B88_a_rank_without_tokens_gets_an_empty_output() -> None:
    layer, method = make_layer()
    out = apply(method, layer, torch.zeros(0, 16), torch.zeros(0, 2), torch.zeros(0, 2, dtype=torch.int32))
    assert out.shape == (0, 16)


def test_reloading_weights_keeps_their_memory_and_uses_the_new_values() -> None:
    layer, method = make_layer()
    pointers = layer.w13_weight.data_ptr(), layer.w2_weight.data_ptr()
    for _ in range(2):
        layer.w13_weight.data.normal_()
        layer.w2_weight.data.normal_()
        method.process_weights_after_loading(layer)
    assert (layer.w13_weight.data_ptr(), layer.w2_weight.data_ptr()) == pointers
    hidden, weights, ids = torch.randn(3, 16), torch.rand(3, 2), torch.tensor([[0, 1], [2, 3], [1, 1]])
    wanted = run_experts(hidden, layer.w13_weight, layer.w2_weight, weights, ids, MoEActivation.SILU)
    assert torch.equal(apply(method, layer, hidden, weights, ids), wanted)


def test_B85_router_weights_on_the_input_need_one_expert_per_token() -> None:
    layer, method = make_layer(top_k=1, on_input=True)
    hidden, weights, ids = torch.randn(3, 16), torch.rand(3, 1), torch.tensor([[0], [3], [1]])
    wanted = run_experts(hidden * weights, layer.w13_weight, layer.w2_weight, None, ids, MoEActivation.SILU)
    torch.testing.assert_close(apply(method, layer, hidden, weights, ids), wanted)
    with pytest.raises(ValueError, match=r"layers\.0\.mlp\.experts: router weights .* not for 2"):
        make_layer(top_k=2, on_input=True)


@pytest.mark.parametrize(
    "changes",
    [
        {"enable_eplb": True},
        {"is_lora_enabled": True},
        {"use_ep": True, "dp_size": 2, "all2all_backend": "deepep_low_latency"},
        {"activation": MoEActivation.SWIGLUSTEP},
    ],
    ids=lambda changes: "+".join(changes),
)
def test_B86_load_balancing_adapters_batches_and_activations_are_refused_before_weights(
    changes: dict[str, Any],
) -> None:
    with pytest.raises(ValueError, match=r"TorchExperts kernel does not support .* Leave out --enable-eplb"):
        UnquantizedFusedMoEMethodFL(make_config(**changes))


def test_B86_load_balancing_is_refused_by_what_the_method_says_of_itself() -> None:
    method = UnquantizedFusedMoEMethodFL(make_config())
    assert method.supports_eplb is False
    assert method.is_monolithic is False


def test_a_limit_is_refused_for_activations_that_have_none() -> None:
    with pytest.raises(ValueError, match="SwiGLU limit is not supported with expert activation 'gelu'"):
        UnquantizedFusedMoEMethodFL(make_config(activation=MoEActivation.GELU, swiglu_limit=7.0))


def test_biases_of_the_experts_are_added() -> None:
    method = UnquantizedFusedMoEMethodFL(make_config(has_bias=True))
    layer = Layer(method.moe)
    method.create_weights(layer, 4, 16, 16, torch.float32)
    for parameter in layer.parameters():
        parameter.data.normal_(0, 0.3)
    method.process_weights_after_loading(layer)
    hidden, weights, ids = torch.randn(3, 16), torch.rand(3, 2), torch.tensor([[0, 1], [2, 3], [1, 1]])
    wanted = run_experts(
        hidden,
        layer.w13_weight,
        layer.w2_weight,
        weights,
        ids,
        MoEActivation.SILU,
        w13_bias=layer.w13_bias,
        w2_bias=layer.w2_bias,
    )
    assert torch.equal(apply(method, layer, hidden, weights, ids), wanted)
