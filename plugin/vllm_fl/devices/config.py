"""Checks and adjustments of a VllmConfig for an out-of-tree device, before any weight is read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from vllm.logger import init_logger
from vllm.utils.import_utils import resolve_obj_by_qualname

from vllm_fl.checkpoint import check_shards
from vllm_fl.compilation.graphs import apply_graph_policy, check_graph_policy
from vllm_fl.devices.base import Device

if TYPE_CHECKING:
    from vllm.config import VllmConfig

logger = init_logger(__name__)


def check_config(config: VllmConfig, device: Device) -> None:
    """Raise ValueError, naming the option and the way out, for what ``device`` cannot do.

    ``config.model_config`` may be None: vLLM builds such configurations for tools and defaults.
    """
    check_graph_policy(config, device)
    for refusal in resolve_obj_by_qualname(device.refusals) if device.refusals else ():
        if refusal.asked(config):
            raise ValueError(refusal.message(device.name))
    _check_runner(config, device)
    _check_block_size(config, device)
    _check_quantization(config, device)
    if config.model_config is not None and config.load_config.load_format != "dummy":
        check_shards(Path(config.model_config.model))


def fit_config(config: VllmConfig, device: Device) -> None:
    """Set what vLLM leaves to the platform. Applying it twice changes nothing more."""
    parallel, scheduler, model = config.parallel_config, config.scheduler_config, config.model_config
    if parallel.worker_cls == "auto":
        parallel.worker_cls = device.worker_class
    parallel.disable_custom_all_reduce = True
    if not device.async_scheduling:
        # Overlapping steps needs streams and events, which the runner takes from torch.cuda.
        scheduler.async_scheduling = False
    apply_graph_policy(config, device)
    config.shutdown_timeout = config.shutdown_timeout or device.shutdown_seconds
    limit = device.profile_limit_tokens
    if limit is not None and scheduler.max_num_batched_tokens > limit:
        logger.warning(
            "--max-num-batched-tokens %d is more than the %d this device has been run with; "
            "lower it if the start-up profile run fails",
            scheduler.max_num_batched_tokens,
            limit,
        )
    if model is None:
        return
    model.disable_cascade_attn = True
    if model.is_multimodal_model and model.is_mm_prefix_lm:
        # The image tokens of such a model attend to each other, so they must arrive in one step.
        scheduler.disable_chunked_mm_input = True
    if _interpreted_triton():
        # The fp32 path of the second runner's sampler calls a device library the interpreter lacks.
        model.use_fp64_gumbel = True
    _warn_about_hardware_agnostic_layers()


def _check_runner(config: VllmConfig, device: Device) -> None:
    if not config.use_v2_model_runner:
        return
    if not device.v2_runner:
        raise ValueError(
            f"The V2 model runner is not supported on device {device.name!r}. "
            "Set VLLM_USE_V2_MODEL_RUNNER=0 to use the V1 runner"
        )
    from vllm.triton_utils import HAS_TRITON

    if not HAS_TRITON:
        raise ValueError(
            f"The V2 model runner needs Triton, which has no driver on device {device.name!r}. "
            "Set VLLM_USE_V2_MODEL_RUNNER=0 to use the V1 runner, or TRITON_INTERPRET=1 to interpret kernels"
        )


def _check_block_size(config: VllmConfig, device: Device) -> None:
    cache = config.cache_config
    if cache.user_specified_block_size and cache.block_size % device.block_multiple:
        raise ValueError(
            f"--block-size {cache.block_size} is not supported on device {device.name!r}: it must be a "
            f"multiple of {device.block_multiple}. Leave --block-size out to have one chosen"
        )


def _check_quantization(config: VllmConfig, device: Device) -> None:
    method = config.model_config.quantization if config.model_config is not None else None
    if method is not None and method not in device.quantizations:
        supported = ", ".join(device.quantizations) or "none"
        raise ValueError(
            f"--quantization {method} is not supported on device {device.name!r} (supported: {supported}). "
            "Use the unquantized checkpoint"
        )


def _interpreted_triton() -> bool:
    return os.environ.get("TRITON_INTERPRET") == "1"


def _warn_about_hardware_agnostic_layers() -> None:
    import vllm.envs as vllm_envs

    if vllm_envs.VLLM_USE_HW_AGNOSTIC:
        logger.warning(
            "VLLM_USE_HW_AGNOSTIC is set: models that run through the Transformers backend use vLLM's own "
            "layers, the plugin's operators are not applied to them"
        )
