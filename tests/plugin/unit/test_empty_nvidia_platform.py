"""NVIDIA without vLLM's extension: the configuration. No rung below a GPU shows more."""

from __future__ import annotations

import json
import subprocess
import sys

CODE = """
import json
import torch
torch.cuda.get_device_capability = lambda index=0: (9, 0)
from types import SimpleNamespace
from vllm.config.compilation import CompilationMode, PassConfig
from vllm_fl.empty_nvidia_platform import EmptyNvidiaPlatformFL as platform
from vllm.platforms import current_platform

def config(mode):
    passes = PassConfig(fuse_norm_quant=True, fuse_act_quant=True)
    compilation = SimpleNamespace(custom_ops=["none"], pass_config=passes, backend="inductor", mode=mode)
    return SimpleNamespace(compilation_config=compilation)

import vllm_fl.devices.config as checks
checks.check_config = checks.fit_config = lambda config, device: None
compiled = config(CompilationMode.VLLM_COMPILE)
platform.check_and_update_config(compiled)
passes = compiled.compilation_config.pass_config
print(json.dumps({
    "type": platform.device_type,
    "capability": list(platform.get_device_capability()),
    "graphs": platform().support_static_graph_mode(),
    "wrapper": platform.get_static_graph_wrapper_cls(),
    "out_of_tree": platform().is_out_of_tree(),
    "fused": [passes.fuse_norm_quant, passes.fuse_act_quant, passes.enable_sp],
    "noops": passes.eliminate_noops,
    "compiled": platform.get_default_ir_op_priority(compiled).rms_norm,
    "eager": platform.get_default_ir_op_priority(config(CompilationMode.NONE)).rms_norm,
    "running": type(current_platform).__name__,
}))
"""


def test_graphs_and_compiled_operators_without_vllms_own_fusions(plugin_environment: dict[str, str]) -> None:
    environment = {**plugin_environment, "VLLM_FL_PLATFORM": "nvidia", "VLLM_FL_PREFER": "vendor"}
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "type": "cuda",
        "capability": [9, 0],
        "graphs": True,
        "wrapper": "vllm.compilation.cuda_graph.CUDAGraphWrapper",
        "out_of_tree": True,
        "fused": [False, False, False],
        "noops": True,
        "compiled": ["native"],
        "eager": ["fl", "native"],
        "running": "EmptyNvidiaPlatformFL",
    }
