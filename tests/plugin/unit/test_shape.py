"""What must stay true of the thin subclasses when vLLM moves: size, signatures, defaults."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import vllm_fl

PACKAGE = Path(vllm_fl.__file__).parent


def thin_subclasses() -> list[type]:
    from vllm_fl.platform import PlatformFL
    from vllm_fl.worker.block_table import TorchMultiGroupBlockTable
    from vllm_fl.worker.model_runner import ModelRunnerFL
    from vllm_fl.worker.sampler import TorchTopKTopPSampler
    from vllm_fl.worker.worker import NvidiaWorkerFL, WorkerFL

    return [
        PlatformFL,
        WorkerFL,
        NvidiaWorkerFL,
        ModelRunnerFL,
        TorchMultiGroupBlockTable,
        TorchTopKTopPSampler,
    ]


def parameters(function: Any) -> list[str]:
    return list(inspect.signature(function).parameters)


def overridden(cls: type) -> dict[str, tuple[Any, Any]]:
    """Methods of ``cls`` that replace one of a vLLM base class: name -> (ours, vLLM's)."""
    found = {}
    for name, value in vars(cls).items():
        function = value.__func__ if isinstance(value, classmethod) else value
        if name.startswith("__") or not inspect.isfunction(function):
            continue
        for base in cls.__mro__[1:]:
            if name in vars(base) and base.__module__.startswith("vllm."):
                theirs = vars(base)[name]
                found[name] = (function, theirs.__func__ if isinstance(theirs, classmethod) else theirs)
                break
    return found


def test_platforms_workers_and_runners_stay_small() -> None:
    files = [PACKAGE / "platform.py", PACKAGE / "nvidia_platform.py", *(PACKAGE / "worker").glob("*.py")]
    assert sum(len(file.read_text().splitlines()) for file in files) < 700


@pytest.mark.parametrize("index", range(6))
def test_B11_B74_overrides_have_the_signature_of_what_they_replace(index: int) -> None:
    cls = thin_subclasses()[index]
    replaced = overridden(cls)
    assert replaced
    for name, (ours, theirs) in replaced.items():
        assert parameters(ours) == parameters(theirs), f"{cls.__name__}.{name}"


def test_B74_overrides_of_the_second_runner_have_the_signature_of_what_they_replace(
    plugin_environment: dict[str, str],
) -> None:
    code = (
        "from tests.plugin.unit.test_shape import overridden, parameters\n"
        "from vllm_fl.worker.model_runner_v2 import ModelRunnerV2FL, TorchSampler\n"
        "(ours, theirs), = overridden(TorchSampler).values()\n"
        "assert parameters(ours) == parameters(theirs)\n"
        "assert 'load_model' in overridden(ModelRunnerV2FL)\n"
    )
    environment = {**plugin_environment, "TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""}
    environment["PYTHONPATH"] += f":{Path(__file__).parents[3]}"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_B74_functions_called_by_position_keep_their_parameters() -> None:
    from vllm.v1.sample.ops.topk_topp_sampler import TopKTopPSampler, apply_top_k_top_p_pytorch
    from vllm.v1.worker.gpu_worker import init_worker_distributed_environment
    from vllm.v1.worker.utils import request_memory
    from vllm.v1.worker.workspace import init_workspace_manager

    assert parameters(init_worker_distributed_environment) == [
        "vllm_config",
        "rank",
        "distributed_init_method",
        "local_rank",
        "backend",
    ]
    assert parameters(init_workspace_manager)[:2] == ["device", "num_ubatches"]
    assert parameters(request_memory) == ["init_snapshot", "cache_config"]
    assert parameters(apply_top_k_top_p_pytorch) == ["logits", "k", "p", "allow_cpu_sync"]
    assert parameters(TopKTopPSampler.__init__) == ["self", "logprobs_mode", "use_fp64_gumbel"]


def test_B102_platform_defaults_the_plugin_relies_on() -> None:
    from vllm_fl.platform import CpuPlatformFL

    platform = CpuPlatformFL()
    answers = {
        "is_out_of_tree": True,
        "is_cuda_alike": False,
        "is_cpu": False,
        "is_sleep_mode_available": False,
        "uses_host_device_handling": False,
        "can_update_inplace": True,
        "use_all_gather": True,
        "use_custom_allreduce": False,
        "use_custom_op_collectives": False,
        "use_sync_weight_loader": False,
        "supports_fp8": False,
        "supports_mx": False,
        "support_deep_gemm": False,
        "is_integrated_gpu": False,
        "is_arch_support_pdl": False,
        "support_hybrid_kv_cache": True,
        "support_static_graph_mode": False,
        "opaque_attention_op": True,
        "get_device_capability": None,
    }
    assert {name: getattr(platform, name)() for name in answers} == answers
    assert platform.has_device_capability(80) is False


def test_the_nvidia_platform_only_adds_our_worker_and_needs_no_ascend_module(
    plugin_environment: dict[str, str],
) -> None:
    code = (
        "import sys, types\n"
        # Kernels the empty build of vLLM does not have.
        "sys.modules['vllm._C_stable_libtorch'] = types.ModuleType('vllm._C_stable_libtorch')\n"
        "class Refuse:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        assert 'vendor.ascend' not in name and name != 'torch_npu', name\n"
        "sys.meta_path.insert(0, Refuse())\n"
        "import vllm_fl.nvidia_platform as n\n"
        "n.CudaPlatform.check_and_update_config = classmethod(lambda cls, config: None)\n"
        "parallel = types.SimpleNamespace(worker_cls='auto')\n"
        "compilation = types.SimpleNamespace(custom_ops=[])\n"
        "config = types.SimpleNamespace(parallel_config=parallel, compilation_config=compilation)\n"
        "for _ in range(2):\n"
        "    n.NvidiaPlatformFL.check_and_update_config(config)\n"
        "    assert config.parallel_config.worker_cls == 'vllm_fl.worker.worker.NvidiaWorkerFL'\n"
        "assert n.NvidiaPlatformFL().is_cuda_alike()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**plugin_environment, "VLLM_PLUGINS": ""},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_B75_the_removed_fused_moe_class_is_not_imported() -> None:
    """The class became a factory function in vLLM 0.28."""
    import ast

    for file in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom):
                assert "FusedMoE" not in {alias.name for alias in node.names}, file
