"""The second (V2) model runner. On the reference device its Triton kernels are interpreted."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from vllm.v1.sample.ops.topk_topp_sampler import apply_top_k_top_p_pytorch
from vllm.v1.worker.gpu.model_runner import GPUModelRunner
from vllm.v1.worker.gpu.sample.gumbel import gumbel_sample
from vllm.v1.worker.gpu.sample.sampler import Sampler
from vllm.v1.worker.gpu.structured_outputs import StructuredOutputsWorker

from vllm_fl.worker.structured_outputs import TorchStructuredOutputsWorker


class TorchSampler(Sampler):
    """Top-k and top-p by sorting; vLLM's own takes a Triton kernel the interpreter cannot run."""

    def sample(
        self,
        logits: torch.Tensor,
        expanded_idx_mapping: torch.Tensor,
        idx_mapping: torch.Tensor,
        idx_mapping_np: np.ndarray,
        pos: torch.Tensor,
        input_ids: torch.Tensor,
        expanded_local_pos: torch.Tensor,
        return_logprobs: bool = False,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        processed = self.apply_sampling_params(
            logits,
            expanded_idx_mapping,
            idx_mapping,
            idx_mapping_np,
            pos,
            input_ids,
            expanded_local_pos,
            skip_top_k_top_p=True,
        )
        top_k, top_p = self.sampling_states.get_top_k_top_p(expanded_idx_mapping, idx_mapping_np)
        if top_k is not None or top_p is not None:
            processed = apply_top_k_top_p_pytorch(processed, top_k, top_p)
        sampled = gumbel_sample(
            processed,
            expanded_idx_mapping,
            self.sampling_states.temperature.gpu,
            self.sampling_states.seeds.gpu,
            pos,
            apply_temperature=False,
            use_fp64=self.use_fp64_gumbel,
        )
        return sampled, processed


class ModelRunnerV2FL(GPUModelRunner):
    """vLLM's second runner, sampling without the kernels the Triton interpreter cannot run."""

    sampler: Sampler
    structured_outputs_worker: StructuredOutputsWorker

    def load_model(self, *args: Any, **kwargs: Any) -> None:
        super().load_model(*args, **kwargs)
        if type(self.sampler) is not Sampler:
            return  # no sampler on this pipeline stage, or one the model brought
        self.sampler = TorchSampler(
            max_num_reqs=self.max_num_reqs,
            vocab_size=self.vocab_size,
            device=self.device,
            req_states=self.req_states,
            logprobs_mode=self.model_config.logprobs_mode,
            num_speculative_tokens=self.decode_query_len,
            use_fp64_gumbel=self.model_config.use_fp64_gumbel,
            reasoning_config=self.vllm_config.reasoning_config,
            return_sampling_mask=self.model_config.return_sampling_mask,
        )
        replaced = self.structured_outputs_worker
        self.structured_outputs_worker = TorchStructuredOutputsWorker(
            max_num_logits=replaced.logits_indices.shape[0],
            vocab_size=self.vocab_size,
            device=self.device,
            mask_stride=replaced.mask_stride,
            num_bonus_tokens=replaced.num_bonus_tokens,
        )
