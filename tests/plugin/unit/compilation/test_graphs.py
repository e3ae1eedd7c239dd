from __future__ import annotations

from types import SimpleNamespace

import pytest
from vllm_fl.compilation.graphs import apply_graph_policy, check_graph_policy
from vllm_fl.devices.ascend import ASCEND
from vllm_fl.devices.cpu import CPU
from vllm_fl.devices.cuda import CUDA


def config(enforce_eager: bool) -> SimpleNamespace:
    return SimpleNamespace(
        model_config=SimpleNamespace(enforce_eager=enforce_eager),
        compilation_config=SimpleNamespace(
            mode=3, cudagraph_mode="full", cudagraph_capture_sizes=[1, 2], compile_sizes=[1]
        ),
    )


@pytest.mark.parametrize("device", [CPU, ASCEND])
def test_devices_without_graphs_demand_eager_execution(device: object) -> None:
    check_graph_policy(config(enforce_eager=True), device)
    with pytest.raises(ValueError, match="--enforce-eager"):
        check_graph_policy(config(enforce_eager=False), device)


def test_devices_with_graphs_keep_what_vllm_chose() -> None:
    chosen = config(enforce_eager=False)
    check_graph_policy(chosen, CUDA)
    apply_graph_policy(chosen, CUDA)
    assert chosen == config(enforce_eager=False)


def test_every_graph_mode_is_off_on_a_device_without_graphs() -> None:
    from vllm.config import CompilationMode, CUDAGraphMode

    chosen = config(enforce_eager=True)
    apply_graph_policy(chosen, ASCEND)
    assert vars(chosen.compilation_config) == {
        "mode": CompilationMode.NONE,
        "cudagraph_mode": CUDAGraphMode.NONE,
        "cudagraph_capture_sizes": [],
        "compile_sizes": [],
    }
