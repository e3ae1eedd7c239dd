"""Every patch: what it replaces still exists, still fails without it, and works with it."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys

import pytest
import torch
from vllm.utils.import_utils import resolve_obj_by_qualname
from vllm_fl.compat import Patch, apply_patches
from vllm_fl.devices.cuda import CUDA_WITHOUT_EXTENSION
from vllm_fl.devices.detect import DEVICES
from vllm_fl.version_gate import SUPPORTED_SERIES

DEVICES = (*DEVICES, CUDA_WITHOUT_EXTENSION)
NAMES = sorted({name for d in DEVICES for name in (*d.patches, *d.worker_patches, *d.v2_patches)})


@pytest.mark.parametrize("name", NAMES)
def test_patches_were_checked_with_the_supported_series_and_their_target_exists(name: str) -> None:
    patch = resolve_obj_by_qualname(name)
    assert patch.series == SUPPORTED_SERIES
    module, _, attribute = patch.target.rpartition(".")
    assert hasattr(importlib.import_module(module), attribute)


def test_a_patch_that_is_not_needed_is_not_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    applied = []
    module = sys.modules[__name__]
    monkeypatch.setattr(
        module, "NEEDED", Patch("x", "0.28", lambda: True, lambda: applied.append(1)), raising=False
    )
    monkeypatch.setattr(
        module, "IDLE", Patch("x", "0.28", lambda: False, lambda: applied.append(2)), raising=False
    )
    apply_patches([f"{__name__}.NEEDED", f"{__name__}.IDLE"])
    assert applied == [1]


NO_ACCELERATOR = pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has an accelerator")
UNPATCHED = [
    "accelerator.synchronize()",
    "accelerator.empty_cache()",
    "accelerator.get_memory_info()",
    "cuda.Stream()",
]


@pytest.fixture(scope="module")
def unpatched() -> dict[str, str]:
    """What each expression raises in a process without patches."""
    code = (
        "import json, torch\n"
        "raised = {}\n"
        f"for expression in {UNPATCHED!r}:\n"
        "    try:\n"
        "        eval('torch.' + expression)\n"
        "    except Exception as error:\n"
        "        raised[expression] = type(error).__name__\n"
        "print(json.dumps(raised))\n"
    )
    return json.loads(subprocess.check_output([sys.executable, "-c", code], text=True, timeout=60))


@NO_ACCELERATOR
@pytest.mark.parametrize("expression", UNPATCHED)
def test_B99_torch_still_needs_a_device(expression: str, unpatched: dict[str, str]) -> None:
    """Once this fails, torch does nothing instead, and the stand-in can go."""
    assert expression in unpatched


@NO_ACCELERATOR
def test_B99_accelerator_stand_ins_do_nothing_and_report_the_memory_of_the_host() -> None:
    from vllm_fl.compat.accelerator import HOST_ACCELERATOR_API

    assert HOST_ACCELERATOR_API.needed()
    HOST_ACCELERATOR_API.apply()
    torch.accelerator.synchronize()
    torch.accelerator.empty_cache()
    torch.accelerator.empty_host_cache()
    free, total = torch.accelerator.get_memory_info()
    assert 0 < free <= total


def test_shared_buffers_still_refuse_an_out_of_tree_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once this fails, vLLM's own buffer works here, and ours can go."""
    import vllm.v1.worker.gpu.buffer_utils as buffer_utils
    from vllm_fl.compat.host_buffers import HOST_BUFFERS

    theirs = buffer_utils.UvaBuffer
    with pytest.raises(RuntimeError, match="UVA"):
        theirs(4, torch.int32)
    monkeypatch.setattr(buffer_utils, "UvaBuffer", theirs)
    HOST_BUFFERS.apply()
    buffer = buffer_utils.UvaBuffer((2, 3), torch.int32)
    buffer.np[1, 2] = 7
    assert buffer.uva.tolist() == buffer.cpu.tolist() == [[0, 0, 0], [0, 0, 7]]


def test_state_copies_still_need_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once this fails, vLLM copies states without Triton, and the replacement can go."""
    import vllm.v1.worker.mamba_utils as mamba_utils
    from vllm_fl.compat.mamba_copy import HOST_STATE_COPY

    source, target = torch.arange(6.0), torch.zeros(6)
    pointers = [torch.tensor([tensor.data_ptr()]) for tensor in (source, target)]
    monkeypatch.setattr(mamba_utils, "batch_memcpy_kernel", mamba_utils.batch_memcpy_kernel)
    with pytest.raises(TypeError):
        mamba_utils.batch_memcpy(*pointers, torch.tensor([16]))
    HOST_STATE_COPY.apply()
    mamba_utils.batch_memcpy(*pointers, torch.tensor([16]))
    assert target.tolist() == [0, 1, 2, 3, 0, 0]


def test_vllms_view_of_pinned_memory_still_knows_no_other_platform() -> None:
    from vllm.utils.torch_utils import get_accelerator_view_from_cpu_tensor

    with pytest.raises(ValueError, match="not supported"):
        get_accelerator_view_from_cpu_tensor(torch.zeros(2))
