"""Workers. Device families differ by their descriptor only."""

from __future__ import annotations

import gc
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import torch
from vllm.logger import init_logger
from vllm.platforms import current_platform
from vllm.utils.mem_utils import MemorySnapshot, format_gib
from vllm.utils.torch_utils import set_random_seed
from vllm.v1.utils import report_usage_stats
from vllm.v1.worker.gpu_worker import Worker, init_worker_distributed_environment
from vllm.v1.worker.utils import request_memory
from vllm.v1.worker.worker_base import CompilationTimes
from vllm.v1.worker.workspace import init_workspace_manager

from vllm_fl.compat import apply_patches
from vllm_fl.devices.base import Device
from vllm_fl.dispatch import agree_with_other_ranks, start_worker_runtime
from vllm_fl.dispatch.settings import load_settings

if TYPE_CHECKING:
    from vllm.config import ParallelConfig

    from vllm_fl.worker.model_runner import ModelRunnerFL
    from vllm_fl.worker.model_runner_v2 import ModelRunnerV2FL

logger = init_logger(__name__)


def data_parallel_offset(parallel: ParallelConfig) -> int:
    """Devices that the data-parallel ranks before this one use on this host, which all see every device."""
    shares_host = (
        parallel.distributed_executor_backend not in ("ray", "external_launcher")
        and parallel.data_parallel_backend != "ray"
        and parallel.nnodes_within_dp == 1
    )
    if not shares_host:
        return 0
    rank = parallel.data_parallel_rank_local
    if rank is None:
        rank = parallel.data_parallel_index
    return rank * parallel.pipeline_parallel_size * parallel.tensor_parallel_size


def record_operators(worker: Worker) -> None:
    """Hook the IO dump into a loaded model; nothing is even imported unless it was asked for."""
    env = load_settings().environment
    if env.io_dump:
        from vllm_fl.dispatch import io_dump

        io_dump.attach(worker.get_model(), env, worker.rank)


class WorkerFL(Worker):
    """Worker of an out-of-tree device."""

    @property
    def fl_device(self) -> Device:
        return type(current_platform).fl_device

    def init_device(self) -> None:
        self.device = self._claim_device()
        current_platform.check_if_supports_dtype(self.model_config.dtype)
        init_worker_distributed_environment(
            self.vllm_config,
            self.rank,
            self.distributed_init_method,
            self.local_rank,
            current_platform.dist_backend,
        )
        set_random_seed(self.model_config.seed)
        gc.collect()
        torch.accelerator.empty_cache()
        if self.fl_device.default_kv_cache_bytes is None:
            self.init_snapshot = MemorySnapshot(device=self.device)
            self.requested_memory = request_memory(self.init_snapshot, self.cache_config)
        init_workspace_manager(self.device, num_ubatches=1)
        apply_patches(self.fl_device.worker_patches)
        start_worker_runtime(self.rank)
        self.model_runner = self._make_runner()
        if self.rank == 0:
            report_usage_stats(self.vllm_config)

    def _claim_device(self) -> torch.device:
        if not self.fl_device.indexed:
            return torch.device(self.fl_device.torch_type)
        self.local_rank += data_parallel_offset(self.parallel_config)
        count = torch.accelerator.device_count()
        if self.local_rank >= count:
            raise ValueError(
                f"Worker {self.rank} needs device {self.local_rank} but {count} are visible. Lower "
                "--tensor-parallel-size or --data-parallel-size, or let "
                f"{current_platform.device_control_env_var} name more devices"
            )
        device = torch.device(self.fl_device.torch_type, self.local_rank)
        torch.accelerator.set_device_index(device)
        return device

    def _make_runner(self) -> ModelRunnerFL | ModelRunnerV2FL:
        if self.use_v2_model_runner:
            apply_patches(self.fl_device.v2_patches)
            from vllm_fl.worker.model_runner_v2 import ModelRunnerV2FL

            return ModelRunnerV2FL(self.vllm_config, self.device)
        from vllm_fl.worker.model_runner import ModelRunnerFL

        return ModelRunnerFL(self.vllm_config, self.device)

    def load_model(self, *, load_dummy_weights: bool = False) -> None:
        super().load_model(load_dummy_weights=load_dummy_weights)
        record_operators(self)

    def _maybe_get_memory_pool_context(self, tag: str) -> AbstractContextManager[None]:
        # Only sleep mode needs a pool, and it is refused.
        return nullcontext()

    @torch.inference_mode()
    def determine_available_memory(self) -> int:
        """Bytes of this worker's key-value cache."""
        default = self.fl_device.default_kv_cache_bytes
        if default is None:
            return super().determine_available_memory()
        self.model_runner.profile_run()
        asked = self.cache_config.kv_cache_memory_bytes
        if asked:
            return asked
        share = self.fl_device.memory(0).free // (2 * self.parallel_config.local_world_size)
        chosen = min(default, share)
        logger.info(
            "Reserving %s GiB for the key-value cache; --kv-cache-memory-bytes sets another size",
            format_gib(chosen),
        )
        return chosen

    def compile_or_warm_up_model(self) -> CompilationTimes:
        # Nothing is compiled; the profile run already executed the model once.
        agree_with_other_ranks()
        set_random_seed(self.model_config.seed)
        return CompilationTimes(language_model=0.0, encoder=0.0)


class NvidiaWorkerFL(Worker):
    """vLLM's own worker, with the operator runtime started before the model runner exists."""

    def init_device(self) -> None:
        ids = self.parallel_config.assigned_physical_gpu_ids
        if ids is not None:
            from vllm.platforms.interface import set_assigned_physical_gpu_ids

            set_assigned_physical_gpu_ids(ids)
        # An operator library that looks at the current GPU must find this worker's, not the first one.
        rank = self.local_rank + data_parallel_offset(self.parallel_config)
        torch.accelerator.set_device_index(current_platform.logical_device_id_to_visible_device_id(rank))
        apply_patches(type(current_platform).fl_device.worker_patches)
        start_worker_runtime(self.rank)
        super().init_device()

    def load_model(self, *, load_dummy_weights: bool = False) -> None:
        super().load_model(load_dummy_weights=load_dummy_weights)
        record_operators(self)

    def _maybe_get_memory_pool_context(self, tag: str) -> AbstractContextManager[None]:
        # Without vLLM's extension there is no pool, and sleep mode, which needs one, is refused.
        if not current_platform.is_cuda_alike():
            return nullcontext()
        return super()._maybe_get_memory_pool_context(tag)

    def compile_or_warm_up_model(self) -> CompilationTimes:
        # Before graphs are captured: what a graph calls cannot be changed afterwards.
        agree_with_other_ranks()
        return super().compile_or_warm_up_model()
