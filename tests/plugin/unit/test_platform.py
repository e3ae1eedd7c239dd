from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from vllm_fl.devices.ascend import ASCEND
from vllm_fl.devices.cpu import CPU
from vllm_fl.platform import AscendPlatformFL, CpuPlatformFL, PlatformFL


@pytest.mark.parametrize(("platform", "device"), [(CpuPlatformFL, CPU), (AscendPlatformFL, ASCEND)])
def test_a_platform_says_what_its_descriptor_says(platform: type[PlatformFL], device: Any) -> None:
    assert platform.device_type == platform.device_name == device.torch_type
    assert platform.dispatch_key == device.dispatch_key
    assert platform.dist_backend == device.dist_backend
    assert platform.device_control_env_var == device.visibility_variable
    assert platform.simple_compile_backend == "eager"
    assert platform.support_static_graph_mode() is False
    assert platform.get_device_communicator_cls() == device.communicator


def test_the_visibility_variable_may_be_renamed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLAGOS_DEVICE_CONTROL_ENV_VAR", "MY_DEVICES")

    class Renamed(PlatformFL, device=ASCEND):
        pass

    assert Renamed.device_control_env_var == "MY_DEVICES"


def test_memory_of_the_host_is_reported_in_bytes() -> None:
    total = CpuPlatformFL.get_device_total_memory()
    assert 1 << 28 < CpuPlatformFL.get_current_memory_usage() < total


def test_a_dtype_that_is_not_computed_in_is_refused() -> None:
    CpuPlatformFL.check_if_supports_dtype(torch.bfloat16)
    with pytest.raises(ValueError, match="--dtype"):
        CpuPlatformFL.check_if_supports_dtype(torch.float8_e4m3fn)


def selection(**changes: Any) -> Any:
    from vllm.v1.attention.selector import AttentionSelectorConfig

    return AttentionSelectorConfig(
        **{"head_size": 32, "dtype": torch.float32, "kv_cache_dtype": "auto", "block_size": None, **changes}
    )


@pytest.mark.parametrize("use_mla", [False, True])
def test_B4_attention_classes_are_vllm_backends(use_mla: bool) -> None:
    from vllm.utils.import_utils import resolve_obj_by_qualname
    from vllm.v1.attention.backend import AttentionBackend

    name = CpuPlatformFL.get_attn_backend_cls(None, selection(use_mla=use_mla))
    backend = resolve_obj_by_qualname(name)
    assert issubclass(backend, AttentionBackend)
    assert backend.get_name() == "CUSTOM"


def test_B4_latent_attention_without_a_backend_names_the_way_out() -> None:
    with pytest.raises(ValueError, match="VLLM_MLA_DISABLE=1"):
        AscendPlatformFL.get_attn_backend_cls(None, selection(use_mla=True))


@pytest.mark.parametrize("changes", [{"use_sparse": True}, {"kv_cache_dtype": "fp8"}])
def test_attention_a_backend_cannot_do_is_refused_with_its_reasons(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"not supported on device 'cpu': .*not supported"):
        CpuPlatformFL.get_attn_backend_cls(None, selection(**changes))


def test_only_ir_operators_with_a_provider_prefer_it() -> None:
    from dataclasses import fields

    from vllm.ir.op import IrOp

    priority = CpuPlatformFL.get_default_ir_op_priority(SimpleNamespace())
    for field in fields(priority):
        providers = getattr(priority, field.name)
        assert providers[-1] == "native"
        assert ("fl" in providers) == ("fl" in IrOp.registry[field.name].impls)
    assert priority.rms_norm == ["fl", "native"]
