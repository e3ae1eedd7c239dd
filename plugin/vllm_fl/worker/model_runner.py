"""The first (V1) model runner on devices without vLLM's extensions and without Triton."""

from __future__ import annotations

import torch
from vllm.config import VllmConfig
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig
from vllm.v1.worker.gpu_model_runner import GPUModelRunner

from vllm_fl.worker.block_table import TorchMultiGroupBlockTable
from vllm_fl.worker.sampler import TorchTopKTopPSampler


class ModelRunnerFL(GPUModelRunner):
    """vLLM's runner with its Triton kernels and CUDA calls replaced where it lets subclasses do so."""

    def __init__(self, vllm_config: VllmConfig, device: torch.device) -> None:
        super().__init__(vllm_config, device)
        self._use_torch_slot_mapping()
        if hasattr(self, "sampler"):
            replaced = self.sampler.topk_topp_sampler
            self.sampler.topk_topp_sampler = TorchTopKTopPSampler(
                replaced.logprobs_mode, replaced.use_fp64_gumbel
            )

    def _use_torch_slot_mapping(self) -> None:
        self.input_batch.block_table = TorchMultiGroupBlockTable(self.input_batch.block_table.block_tables)

    def may_reinitialize_input_batch(
        self, kv_cache_config: KVCacheConfig, kernel_block_sizes: list[int]
    ) -> None:
        super().may_reinitialize_input_batch(kv_cache_config, kernel_block_sizes)
        self._use_torch_slot_mapping()

    def _init_device_properties(self) -> None:
        from vllm.platforms import current_platform

        self.num_sms = current_platform.num_compute_units(self.device.index or 0)

    def _init_kv_zero_meta(self) -> None:
        """Nothing to prepare: blocks are zeroed by plain indexing."""

    def _zero_block_ids(self, block_ids: list[int]) -> None:
        caches = {
            cache.data_ptr(): cache
            for group in self.kv_cache_config.kv_cache_groups
            if isinstance(group.kv_cache_spec, FullAttentionSpec)
            for layer in group.layer_names
            if isinstance(
                cache := self.compilation_config.static_forward_context[layer].kv_cache, torch.Tensor
            )
        }
        for cache in caches.values():
            # The attention kernel may split each block of the manager into several of its own.
            blocks = cache.view(self.kv_cache_config.num_blocks, -1)
            blocks[block_ids] = 0

    def _to_list(self, sampled_token_ids: torch.Tensor) -> list[list[int]]:
        return sampled_token_ids.tolist()
