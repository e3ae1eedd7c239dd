"""What a worker starts before its model exists, and settles after the profile run."""

from __future__ import annotations

import logging
from typing import Any

from vllm_fl import envs
from vllm_fl.dispatch.agreement import agree
from vllm_fl.dispatch.default import get_default_manager, reset_default_manager
from vllm_fl.dispatch.flaggems import enable_flaggems
from vllm_fl.dispatch.settings import load_settings

logger = logging.getLogger(__name__)


def start_worker_runtime(rank: int) -> None:
    """Choose the operators of this worker. Call it once the worker's device is set, before layers are built.

    Raises ValueError or FileNotFoundError for a bad variable or policy file.
    """
    settings = load_settings()
    env = settings.environment
    _show_logs(env)
    if rank == 0:
        for name, near in envs.misspelled().items():
            logger.warning("%s is set but unknown%s", name, f"; perhaps you meant {near}" if near else "")
    manager = get_default_manager()
    manager.rank = rank
    manager.arch = _device_capability
    found = reset_default_manager(settings)
    logger.info("rank %d: operators of %s on device %r", rank, ", ".join(found.loaded), settings.device)
    enable_flaggems(settings, rank)


def _show_logs(env: envs.Environment) -> None:
    """Write the plugin's messages where vLLM's go, at the level asked for."""
    plugin = logging.getLogger("vllm_fl")
    plugin.setLevel(env.log_level)
    if env.dispatch_debug:
        logging.getLogger("vllm_fl.dispatch").setLevel(logging.DEBUG)
    for handler in logging.getLogger("vllm").handlers:
        if handler not in plugin.handlers:
            plugin.addHandler(handler)
    plugin.propagate = not plugin.handlers


def agree_with_other_ranks() -> None:
    """Settle the implementations for all ranks. A collective: call it on every worker, after the profile run.

    Raises RuntimeError on all ranks when their policies differ.
    """
    import torch.distributed
    from vllm.distributed.parallel_state import get_world_group

    group = get_world_group()

    def gather(report: Any) -> list[Any]:
        reports: list[Any] = [None] * group.world_size
        torch.distributed.all_gather_object(reports, report, group=group.cpu_group)
        return reports

    agree(get_default_manager(), gather)


def _device_capability() -> tuple[int, int] | None:
    from vllm.platforms import current_platform

    capability = current_platform.get_device_capability()
    return None if capability is None else (capability.major, capability.minor)
